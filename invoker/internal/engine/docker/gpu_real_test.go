package docker

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// greeter sends a word to each client of a socket in a directory that others may pass.
func greeter(t *testing.T, word string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") // short: a socket's path has at most 107 bytes
	check.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "a.sock"))
	check.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, word)
			conn.Close()
		}
	}()
	check.NoError(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "a.sock"), 0o666)))
	return dir
}

// A GPU container has the files of the host, cannot write them, does not see later mounts of
// the host, and can talk to a mounted socket, with any user. The image has neither a C
// library nor the directories.
func TestRealGPUMounts(t *testing.T) {
	for _, user := range []string{"0", "1001"} {
		t.Run("user "+user, func(t *testing.T) {
			r := startReal(t, func(o *Options) { o.ExtraArgs = map[string][]string{"user": {user}} })
			dir := greeter(t, "hello from the host")
			library := filepath.Join(t.TempDir(), "lib.so")
			check.NoError(t, os.WriteFile(library, []byte("no library"), 0o644))
			spec := r.spec()
			spec.GPU = &container.GPU{
				Simulated: true,
				Env:       []string{"LD_PRELOAD=/opt/gpuwhisk/lib.so", "__OW_API_HOST=over"},
				Mounts:    []container.Mount{{Source: library, Target: "/opt/gpuwhisk/lib.so"}, {Source: dir, Target: "/run/gpuwhisk"}},
			}
			h, err := r.Create(t.Context(), spec)
			check.NoError(t, err)
			checkMounts(t, h.Addr)
		})
	}
}

func checkMounts(t *testing.T, addr string) {
	t.Helper()
	a := mustRun(t, addr, map[string]any{"env": "LD_PRELOAD", "read": "/opt/gpuwhisk/lib.so", "write": "/opt/gpuwhisk/lib.so",
		"dial": "/run/gpuwhisk/a.sock"})
	check.Equal(t, a.Env, "/opt/gpuwhisk/lib.so")
	check.Includes(t, a.Environ, "__OW_API_HOST=over")
	check.That(t, !slices.Contains(a.Environ, "__OW_API_HOST=https://example"), "environment %v", a.Environ)
	check.Equal(t, a.Output, "no library", "read %q, written %q, received %q", a.Output, a.Written, a.Received)
	check.That(check.Must(t), refused(a.Written), "read %q, written %q, received %q", a.Output, a.Written, a.Received)
	check.Equal(t, a.Received, "hello from the host", "read %q, written %q, received %q", a.Output, a.Written, a.Received)
	a = mustRun(t, addr, map[string]any{"read": "/proc/self/mountinfo", "write": "/run/gpuwhisk/new"})
	check.That(t, refused(a.Written), "written to the socket's directory: %q", a.Written)
	for _, target := range []string{"/opt/gpuwhisk/lib.so", "/run/gpuwhisk"} {
		options := mountOptions(a.Output, target)
		check.That(check.Must(t), strings.HasPrefix(options, "ro,"), "%s is mounted as %q", target, options)
		check.Lacks(t, options, "shared:", "%s is mounted", target)
		check.Lacks(t, options, "master:", "%s is mounted", target)
	}
}

// refused reports that nothing could be written. The kernel looks at the file's
// mode first, which stops all users but root.
func refused(written string) bool {
	return strings.Contains(written, "read-only file system") || strings.Contains(written, "permission denied")
}

// mountOptions gives a mount's options and its ties to other mounts
// (proc_pid_mountinfo(5)).
func mountOptions(mountinfo, target string) string {
	for line := range strings.Lines(mountinfo) {
		head, _, _ := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		if len(fields) > 5 && fields[4] == target {
			return strings.Join(fields[5:], " ")
		}
	}
	return ""
}

// imageWith makes the proxy's image anew with variables of its own.
func imageWith(t *testing.T, r *real, name string, env ...string) {
	t.Helper()
	made, err := r.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: r.prefix + "copy", Image: r.spec().Image})
	check.NoError(t, err)
	defer r.removeOnce(t.Context(), made.ID)
	content, err := r.api.ContainerExport(t.Context(), made.ID, client.ContainerExportOptions{})
	check.NoError(t, err)
	defer content.Close()
	changes := []string{`CMD ["/proxy"]`}
	for _, e := range env {
		changes = append(changes, "ENV "+e)
	}
	check.NoError(t, importImage(name, content, changes...))
	// By its id: the name may come to mean another one.
	inspected, err := r.api.ImageInspect(t.Context(), name)
	check.NoError(t, err)
	r.images = append(r.images, inspected.ID)
}

// steered lists the variables that an image must not choose.
func steered(environ []string) []string {
	var names []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); container.IsReservedImageEnv(name) {
			names = append(names, entry)
		}
	}
	slices.Sort(names)
	return names
}

// The variables of an image by which it would choose devices or come before
// the shim do not reach a GPU container, also when the image's name comes to
// mean another one. Other containers have them as in the original.
func TestRealImageEnvironment(t *testing.T) {
	r := startReal(t, nil)
	name := imageName() + "-cuda"
	imageWith(t, r, name, "LD_LIBRARY_PATH=/keep")
	create := func(gpu *container.GPU) []string {
		t.Helper()
		spec := r.spec()
		spec.Image, spec.GPU = name, gpu
		h, err := r.Create(t.Context(), spec)
		check.NoError(t, err)
		return mustRun(t, h.Addr, nil).Environ
	}
	gpu := &container.GPU{Simulated: true, Env: []string{"LD_PRELOAD=/shim.so"}}
	env := create(gpu)
	check.Includes(t, env, "LD_LIBRARY_PATH=/keep")
	check.EqualSlices(t, steered(env), []string{"LD_PRELOAD=/shim.so"})
	evil := []string{"CUDA_MPS_PIPE_DIRECTORY=/tmp/mps", "CUDA_VISIBLE_DEVICES=7", "LD_AUDIT=/evil.so", "LD_PRELOAD=/evil.so", "NVIDIA_VISIBLE_DEVICES=all"}
	imageWith(t, r, name, append([]string{"CUDA_HOME=/cuda"}, evil...)...)
	for range 2 { // known, as it was, and known as it is
		env := create(gpu)
		check.Includes(t, env, "CUDA_HOME=/cuda")
		check.EqualSlices(t, steered(env), []string{"LD_PRELOAD=/shim.so"})
	}
	check.Equal(t, len(steered(create(&container.GPU{Simulated: true}))), 0, "without a shim: environment")
	check.EqualSlices(t, steered(create(nil)), evil, "without a GPU: environment")
}
