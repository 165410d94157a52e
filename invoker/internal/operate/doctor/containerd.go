package doctor

import (
	"path"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/cdi"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/containerd"
)

const engineSetting = "CONFIG_whisk_containerEngine"

// checkContainerd checks whether the daemon answers and can hold containers.
func checkContainerd(s *snapshot) []Finding {
	if s.containerdErr != nil {
		return fail("start containerd, and run as root; CONFIG_whisk_gpu_containerd_socket names another socket, and "+engineSetting+"=docker uses Docker", "%v", s.containerdErr)
	}
	c, wanted := s.containerd, s.Config.Containerd.Snapshotter
	if v, known := findVersion(strings.TrimPrefix(c.Version, "v")); known && v.before(version{1, 6}) {
		return fail("use containerd 1.6 or later", "containerd %s at %s is too old", c.Version, c.Socket)
	}
	if !slices.Contains(c.Snapshotters, wanted) {
		return fail("name a snapshotter that works in CONFIG_whisk_gpu_containerd_snapshotter",
			"containerd %s at %s has no working snapshotter %s (it has %s)", c.Version, c.Socket, wanted, strings.Join(c.Snapshotters, ", "))
	}
	text := "which the invoker creates when it starts"
	if slices.Contains(c.Namespaces, containerd.Namespace) {
		text = "which exists"
	}
	return ok("containerd %s at %s, snapshotter %s, namespace %s, %s, with %d containers", c.Version, c.Socket, wanted, containerd.Namespace, text, c.Containers)
}

// k3sPrograms is the directory in which k3s keeps the programs of its containerd.
const k3sPrograms = "/var/lib/rancher/k3s/data/current/bin"

// checkRunc checks whether containerd finds the program that starts containers. containerd
// may run elsewhere, so a missing program is only a warning.
func checkRunc(s *snapshot) []Finding {
	if text, err := s.run(nil, "runc", "--version"); err == nil {
		first, _, _ := strings.Cut(text, "\n")
		return ok("%s", first)
	}
	if own := path.Join(k3sPrograms, "runc"); s.exists(own) {
		return ok("%s", own)
	}
	return warn("install runc on containerd's host, on containerd's path", "runc is not found here: without it no container starts")
}

// checkBridge checks the programs that connect action containers to their bridge.
func checkBridge(s *snapshot) []Finding {
	dirs := s.Config.Containerd.PluginDirs
	if missing := containerd.MissingPlugins(s.Files, dirs); len(missing) > 0 {
		return fail("install the CNI plugins (Debian: containernetworking-plugins), or name their directory in CONFIG_whisk_gpu_containerd_pluginDirs",
			"no CNI plugin %s in %s: no container can be created", strings.Join(missing, ", "), strings.Join(dirs, ", "))
	}
	if _, err := s.run(nil, "iptables", "--version"); err != nil {
		return warn("install iptables where the invoker runs", "iptables cannot be run (%v): action containers may have no way out of this host", err)
	}
	return ok("bridge %s by the CNI plugins; its ports are isolated from each other", s.Config.Containerd.Bridge)
}

// checkDevices checks whether a CDI specification names each device, which is containerd's
// only way to give a device to a container.
func checkDevices(s *snapshot) []Finding {
	known := cdi.Read(s.Files, containerd.DefaultOptions().CDIDirs)
	found, _ := s.devices() // checkCards reports the error
	var names []string
	for _, d := range found {
		names = append(names, d.UUID)
	}
	return merged(ofEach(names, func(device string) []Finding {
		name, found := known.Find(device)
		if !found {
			return fail("nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml",
				"no CDI specification names %s: containerd cannot give it to a container", device)
		}
		return ok("%s by cdi as %s", device, name)
	}), "; ", "", "")
}
