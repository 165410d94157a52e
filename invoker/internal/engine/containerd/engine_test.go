package containerd

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// open opens an engine on the real daemon for containers with a prefix.
func open(t *testing.T, prefix string, change func(*Options)) *Engine {
	t.Helper()
	o := realOptions(t)
	o.Prefix = prefix
	if change != nil {
		change(&o)
	}
	e, err := New(t.Context(), o)
	check.NoError(t, err)
	t.Cleanup(func() {
		if e.Context().Err() == nil {
			check.NoError(t, e.CleanUp(namespaced(), prefix))
		}
		check.NoError(t, e.Close())
	})
	return e
}

func testSpec(t *testing.T, name string, command ...string) container.Spec {
	return container.Spec{Name: name, Image: importImage(t, imageName(name), command), MemoryMB: 128, CPUShares: 128}
}

// TestCDI: a container gets the device, the files and the variables that a CDI specification
// lists for its GPU, and a device that no specification names is refused by name.
func TestCDI(t *testing.T) {
	dir := t.TempDir()
	library := filepath.Join(dir, "libcuda.so.1")
	check.NoError(t, os.WriteFile(library, []byte("a driver"), 0o644))
	check.NoError(t, os.WriteFile(filepath.Join(dir, "made-up.json"), fmt.Appendf(nil, `{"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu",
		"devices": [{"name": "GPU-made-up", "containerEdits": {
			"deviceNodes": [{"path": "/dev/nvidia7", "hostPath": "/dev/zero", "type": "c", "major": 1, "minor": 5}],
			"mounts": [{"hostPath": %q, "containerPath": "/usr/lib/libcuda.so.1", "options": ["ro", "bind"]}],
			"env": ["NVIDIA_VISIBLE_DEVICES=void"]}}]}`, library), 0o644))
	e := open(t, fmt.Sprintf("gwcdi%d_", os.Getpid()), func(o *Options) { o.CDIDirs = []string{dir} })
	check.NoError(t, e.CheckDevices("GPU-made-up"))
	check.ErrorContains(t, e.CheckDevices("GPU-other"), "found: nvidia.com/gpu=GPU-made-up")

	spec := testSpec(t, e.options.Prefix+"1", "/proxy", "list", "/dev/nvidia7", "/usr/lib/libcuda.so.1")
	spec.GPU = &container.GPU{Device: "GPU-made-up"}
	h, err := e.Create(t.Context(), spec) // it may return an error: the container ends soon
	check.That(check.Must(t), h.ID != "", "no container: %v", err)
	loaded, err := e.api.LoadContainer(namespaced(), string(h.ID))
	check.NoError(t, err)
	made, err := loaded.Spec(namespaced())
	check.NoError(t, err)
	check.Includes(t, made.Process.Env, "NVIDIA_VISIBLE_DEVICES=void")
	check.Receive(t, e.Find(h.ID).Ended())
	got := e.Logs(t.Context(), h.ID, container.LogRequest{LimitBytes: 1 << 20, Failed: true})
	text := strings.Join(got.Lines, "\n")
	check.Contains(t, text, "/dev/nvidia7 device 1:5")
	check.Contains(t, text, "/usr/lib/libcuda.so.1 a driver")
}

// TestClean: the containers of one invoker that was killed go, with their networks and
// files, and those of another invoker stay.
func TestClean(t *testing.T) {
	other := open(t, fmt.Sprintf("gwother%d_", os.Getpid()), nil)
	stays, err := other.Create(t.Context(), testSpec(t, other.options.Prefix+"1", "/proxy"))
	check.NoError(t, err)
	o := realOptions(t)
	o.Prefix = fmt.Sprintf("gwkilled%d_", os.Getpid())
	killed, err := New(t.Context(), o)
	check.NoError(t, err)
	gone, err := killed.Create(t.Context(), testSpec(t, o.Prefix+"1", "/proxy"))
	check.NoError(t, err)
	check.NoError(t, killed.Close())

	n, err := Clean(t.Context(), o, o.Prefix)
	check.NoError(t, err)
	check.Equal(t, n, 1)
	for id, want := range map[container.ID]bool{gone.ID: false, stays.ID: true} {
		_, err := os.Stat(other.dirOf(string(id)))
		check.Equal(t, err == nil, want, "files of a container: %v", err)
		_, err = other.api.LoadContainer(namespaced(), string(id))
		check.Equal(t, err == nil, want, "a container: %v", err)
	}
	_, err = os.Stat(networkDir(killed))
	check.ErrorIs(t, err, os.ErrNotExist, "networks")
	_, err = os.Stat(networkDir(other))
	check.NoError(t, err)

	// The invoker tells its containers' addresses from the host's own.
	at := netip.MustParseAddrPort(stays.Addr).Addr()
	for addr, want := range map[netip.Addr]bool{at: true, netip.AddrFrom16(at.As16()): true, other.network.Gateway(): false, netip.MustParseAddr("192.0.2.1"): false} {
		check.Equal(t, other.FromContainer(addr), want, "%v", addr)
	}
}

// TestFreshStart: an engine that starts releases the networks of containers that are gone.
func TestFreshStart(t *testing.T) {
	prefix := fmt.Sprintf("gwfresh%d_", os.Getpid())
	o := realOptions(t)
	o.Prefix = prefix
	first, err := New(t.Context(), o)
	check.NoError(t, err)
	left, err := first.network.Take(t.Context())
	check.NoError(t, err)
	_, err = os.Stat(left.Path)
	check.NoError(t, err)
	check.NoError(t, first.Close())
	open(t, prefix, nil)
	_, err = os.Stat(left.Path)
	check.ErrorIs(t, err, os.ErrNotExist)
}

// TestAppArmor: containers have a profile exactly where the host has AppArmor.
func TestAppArmor(t *testing.T) {
	for _, tt := range []struct {
		enabled string
		option  []string
		fails   error
		want    string
	}{
		{"", nil, errors.New("no AppArmor"), ""},
		{"N\n", nil, errors.New("no AppArmor"), ""},
		{"Y\n", nil, nil, defaultProfile},
		{"Y\n", []string{noNewPrivileges, "apparmor=unconfined"}, errors.New("not asked for"), "unconfined"},
		{"Y\n", []string{"apparmor=own"}, errors.New("not asked for"), "own"},
	} {
		o := Options{Files: fstest.MapFS{"sys/module/apparmor/parameters/enabled": {Data: []byte(tt.enabled)}}}
		if tt.option != nil {
			o.ExtraArgs = map[string][]string{"security-opt": tt.option}
		}
		args, err := o.arguments()
		check.NoError(t, err)
		e := &Engine{options: o, args: args}
		got, err := e.confine(func(string) error { return tt.fails })
		check.NoError(t, err)
		check.Equal(t, got, tt.want, "%+v", tt)
	}
	e := &Engine{options: Options{Files: fstest.MapFS{"sys/module/apparmor/parameters/enabled": {Data: []byte("Y\n")}}}}
	_, err := e.confine(func(string) error { return errors.New("no apparmor_parser") })
	check.ErrorContains(t, err, "no apparmor_parser")
}

// TestInit: a program that needs libraries of an image is refused as an init.
func TestInit(t *testing.T) {
	check.ErrorContains(t, checkStatic("/bin/sh"), "not linked statically")
	_, err := install("/missing", t.TempDir(), "init", "whisk.gpu.containerd.init")
	check.ErrorContains(t, err, "whisk.gpu.containerd.init")
}

// TestInstalledOnce: a program is copied again exactly when it has changed.
func TestInstalledOnce(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	inode := func() os.FileInfo {
		t.Helper()
		path, err := install(program, dir, "copy", "key")
		check.NoError(t, err)
		info, err := os.Stat(path)
		check.NoError(t, err)
		check.Equal(t, info.Mode().Perm(), 0o755)
		return info
	}
	check.NoError(t, os.WriteFile(program, []byte("old"), 0o644))
	first := inode()
	check.That(t, os.SameFile(first, inode()), "copied again without a change")
	// Programs of an image may have equal sizes and times.
	check.NoError(t, os.WriteFile(program, []byte("new"), 0o644))
	check.NoError(t, os.Chtimes(program, first.ModTime(), first.ModTime()))
	second := inode()
	check.That(t, !os.SameFile(first, second), "not copied after a change")
	content, err := os.ReadFile(filepath.Join(dir, "bin", "copy"))
	check.NoError(t, err)
	check.Equal(t, string(content), "new")
}

// TestErrors: errors of the start name the setting, the path and the missing right.
func TestErrors(t *testing.T) {
	o := DefaultOptions()
	o.Socket = filepath.Join(t.TempDir(), "no.sock")
	_, err := New(t.Context(), o)
	check.ErrorIs(t, err, container.ErrAway)
	check.ErrorContains(t, err, o.Socket)
	check.ErrorContains(t, err, "whisk.gpu.containerd.socket")
	for _, name := range []string{"volume", "log-opt"} {
		o.ExtraArgs = map[string][]string{name: {"x"}}
		_, err = New(t.Context(), o)
		check.ErrorContains(t, err, `"`+name+`" is not supported with containerd`)
	}
}

// TestNoSwap: containers do not swap, and a limit of memory and swap together is asked for
// only where the kernel has it.
func TestNoSwap(t *testing.T) {
	for _, tt := range []struct {
		file string
		want *specs.LinuxMemory
	}{
		{"sys/fs/cgroup/cgroup.controllers", &specs.LinuxMemory{Limit: new(int64), Swap: new(int64)}},
		{"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", &specs.LinuxMemory{Limit: new(int64), Swap: new(int64)}},
		{"sys/fs/cgroup/memory/memory.limit_in_bytes", &specs.LinuxMemory{Limit: new(int64)}},
	} {
		c, err := hostCgroups(fstest.MapFS{tt.file: {}})
		check.NoError(t, err)
		check.DeepEqual(t, c.memory(0), tt.want, tt.file)
	}
}

// networkDir is the directory of an engine's network namespaces.
func networkDir(e *Engine) string {
	return filepath.Join(e.options.RunDir, "netns", strings.TrimSuffix(e.options.Prefix, "_"))
}
