package doctor

import (
	"errors"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// withContainerd is a host that runs actions on containerd.
func withContainerd(change func(*fake)) func(*fake) {
	return func(f *fake) {
		f.Config.Containers.Engine = "containerd"
		f.files["usr/lib/cni/bridge"], f.files["usr/lib/cni/host-local"], f.files["opt/cni/bin/loopback"] = text(""), text(""), text("")
		f.output["runc"], f.output["iptables"] = "runc version 1.1.5\ncommit: x\n", "iptables v1.8.9"
		if change != nil {
			change(f)
		}
	}
}

func TestContainerd(t *testing.T) {
	const engine, bridge, runc, devices = "Containers/engine", "Containers/bridge", "Containers/runc", "GPU/CDI devices"
	runTrials(t, []trial{
		{"", withContainerd(nil), engine, OK, "containerd v2.1.4 at /run/containerd/containerd.sock, snapshotter overlayfs, namespace gpuwhisk", ""},
		{"by its socket alone", func(f *fake) { f.files["run/k3s/containerd/containerd.sock"] = text("") }, engine, OK, "containerd v2.1.4", ""},
		{"away", withContainerd(func(f *fake) { f.containerdErr = errors.New("no socket") }), engine, Fail, "no socket", "CONFIG_whisk_gpu_containerd_socket"},
		{"old", withContainerd(func(f *fake) { f.containerd.Version = "1.5.18" }), engine, Fail, "too old", "1.6"},
		{"no snapshotter", withContainerd(func(f *fake) { f.containerd.Snapshotters = []string{"native"} }), engine, Fail, "it has native", "snapshotter"},
		{"used", withContainerd(func(f *fake) { f.containerd.Namespaces, f.containerd.Containers = []string{"gpuwhisk"}, 3 }), engine, OK, "exists, with 3 containers", ""},

		{"", withContainerd(nil), bridge, OK, "bridge gpuwhisk0", ""},
		{"no plugin", withContainerd(func(f *fake) { delete(f.files, "usr/lib/cni/host-local") }), bridge, Fail, "no CNI plugin host-local", "containernetworking-plugins"},
		{"no iptables", withContainerd(func(f *fake) { delete(f.output, "iptables") }), bridge, Warn, "no way out", "install iptables"},

		{"", withContainerd(nil), runc, OK, "runc version 1.1.5", ""},
		{"k3s", withContainerd(func(f *fake) {
			delete(f.output, "runc")
			f.files["var/lib/rancher/k3s/data/current/bin/runc"] = text("")
		}), runc, OK, "k3s", ""},
		{"missing", withContainerd(func(f *fake) { delete(f.output, "runc") }), runc, Warn, "not found", "install runc"},

		{"", withContainerd(nil), devices, OK, "GPU-0 by cdi as nvidia.com/gpu=GPU-0", ""},
		{"no specification", withContainerd(func(f *fake) { delete(f.files, "etc/cdi/nvidia.yaml") }), devices, Fail, "no CDI specification names GPU-0", "nvidia-ctk cdi generate"},
	})
}

// TestContainerdNotUsed: a host with Docker has no findings about containerd.
func TestContainerdNotUsed(t *testing.T) {
	r := Examine(t.Context(), healthy().Machine, time.Minute)
	for _, name := range []string{"bridge", "runc"} {
		check.Equal(t, len(r.of("Containers", name)), 0, name)
	}
}
