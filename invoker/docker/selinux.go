package docker

import (
	"fmt"
	"slices"
	"strings"

	api "github.com/moby/moby/api/types/container"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// What becomes of GPU containers where the daemon's host has SELinux. A file of
// the host has a label that confined containers may not read, so what is
// mounted must get one that they may, or they must not be confined.
const (
	SELinuxAuto    = "auto"    // relabel where the daemon says that it uses SELinux
	SELinuxRelabel = "relabel" // have the daemon label what is mounted
	SELinuxDisable = "disable" // GPU containers are not confined by SELinux
	SELinuxOff     = "off"     // labels stay as they are
)

// selinux says which of the words, never SELinuxAuto, holds with a daemon.
func (s Survey) selinux(want string) (string, error) {
	switch want {
	case SELinuxRelabel, SELinuxDisable, SELinuxOff:
		return want, nil
	case SELinuxAuto, "":
	default:
		return "", fmt.Errorf("selinux %q: the words are auto, relabel, disable and off", want)
	}
	for _, o := range s.SecurityOptions {
		if slices.Contains(strings.Split(o, ","), "name=selinux") {
			return SELinuxRelabel, nil
		}
	}
	return SELinuxOff, nil
}

// mount has a container get what it needs of the host: files that it reads, and
// directories that it shares. All is private: what is mounted on the host later,
// below the same path, does not appear in it.
func (p hostPart) mount(host *api.HostConfig, g *container.GPU) error {
	if p.selinux != SELinuxRelabel {
		host.Mounts = append(slices.Clone(host.Mounts), binds(g.Mounts, true)...)
		host.Mounts = append(host.Mounts, binds(g.Shared, false)...)
		if p.selinux == SELinuxDisable {
			host.SecurityOpt = append(slices.Clip(host.SecurityOpt), "label=disable")
		}
		return nil
	}
	// The daemon labels what it is told in the older form alone. z: for all
	// containers, since several share a file, and one is used after another.
	host.Binds = slices.Clip(host.Binds)
	for way, mounts := range map[string][]container.Mount{"ro": g.Mounts, "rw": g.Shared} {
		for _, m := range mounts {
			if strings.Contains(m.Source+m.Target, ":") {
				return fmt.Errorf("mount %s with an SELinux label: its path has a colon", m.Source)
			}
			host.Binds = append(host.Binds, m.Source+":"+m.Target+":"+way+",rprivate,z")
		}
	}
	slices.Sort(host.Binds[len(p.host.Binds):])
	return nil
}
