package doctor

import (
	"fmt"
	"path"
	"strings"
)

// longestSocket is what a unix socket's path may have (unix(7), less the
// closing zero).
const longestSocket = 107

// checkSockets looks at the place of the shims' sockets and of the library's
// copy for containers. They are given it by its path on the host: where the
// invoker runs in a container itself, it must come from there.
func checkSockets(f *Facts) []Finding {
	g := f.Config.GPU
	if !f.hasDriver() || !f.usesDocker() || g.Shim.Library == noShim || f.shimAt() == "" {
		return nil
	}
	dir := g.Shim.Dir
	if dir == "" {
		dir = "/var/run/gpuwhisk"
	}
	id := f.Config.Identity
	name := fmt.Sprintf("wsk%s%d_", id.UniqueName, deref(id.ID))
	socket := path.Join(dir, name, "0123456789abcdef", "shim.sock")
	if len(socket) > longestSocket {
		return one(fail(fmt.Sprintf("a socket below %s has a path of %d bytes, the kernel takes %d", dir, len(socket), longestSocket),
			"name a shorter directory in CONFIG_whisk_gpu_shim_dir"))
	}
	if f.contained() && !f.mounted(dir) {
		return one(fail(dir+" is this container's own: GPU containers are given the host's, which is another or none",
			fmt.Sprintf("mount it from the host under the same path (--volume %s:%s)", dir, dir)))
	}
	return one(ok(fmt.Sprintf("below %s, with paths of %d of %d bytes", dir, len(socket), longestSocket)))
}

func deref(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// contained tells whether this process runs in a container.
func (f *Facts) contained() bool {
	return f.exists(".dockerenv") || f.exists("run/.containerenv")
}

// mounted tells whether a path lies on a mount other than the root. /var/run
// is a link to /run on most systems, and a mount is listed by the latter.
func (f *Facts) mounted(at string) bool {
	for line := range strings.Lines(f.read("proc/self/mountinfo")) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] == "/" {
			continue
		}
		for _, name := range []string{at, strings.TrimPrefix(at, "/var")} {
			if name == fields[4] || strings.HasPrefix(name, fields[4]+"/") {
				return true
			}
		}
	}
	return false
}
