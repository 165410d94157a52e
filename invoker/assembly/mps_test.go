package assembly

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/simulated"
)

// mpsHost is a configuration and GPUs of each kind, with a scripted control
// daemon on PATH.
func mpsHost(t *testing.T, runtime string) (*config.Config, *gpus) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "engine", "mps", "testdata", "nvidia-cuda-mps-control"))
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "nvidia-cuda-mps-control"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	dir, err := os.MkdirTemp("", "mps") // short: a socket's path has room for 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := config.Default()
	c.GPU.MPS, c.GPU.Shim.Dir, c.Runtimes.Kind = "shared", dir, runtime
	devices := []gpu.Device{
		{Index: 0, UUID: "GPU-a", MemoryBytes: 1}, {Index: 1, UUID: "MIG-b", MemoryBytes: 1, Sharing: gpu.MIGSlice},
		{Index: 2, MemoryBytes: 1, Simulated: true},
	}
	g := &gpus{devices: devices, mover: simulated.NewMover(gpu.DefaultLink())}
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	})
	return c, g
}

// Containers join the daemon of their device, if it has one, and the device counts
// as shared.
func TestMPSIsJoined(t *testing.T) {
	c, g := mpsHost(t, "process")
	before := slices.Clone(g.devices)
	found := g.devices
	if err := g.startMPS(t.Context(), c, "wsk0_", quiet); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found, before) || g.devices[0].Sharing != gpu.MPSShared || g.devices[1] != before[1] || g.devices[2] != before[2] {
		t.Errorf("devices %+v, found as %+v", g.devices, found)
	}
	pipe := filepath.Join(c.GPU.Shim.Dir, "wsk0_mps", "GPU-a", "pipe")
	for i, want := range [][]string{{"CUDA_MPS_PIPE_DIRECTORY=" + pipe}, nil, nil} {
		got, err := g.mover.Prepare("c", g.devices[i], container.DeviceRequest{})
		if err != nil || !slices.Equal(got.Env, want) || got.Shared != nil {
			t.Errorf("device %d: %+v, %v", i, got, err)
		}
	}
	g.mps.lost("GPU-a", "x") // before there is an invoker
	g.mps.back("GPU-a")
}

func TestMPSInContainers(t *testing.T) {
	c, g := mpsHost(t, "docker")
	err := g.startMPS(t.Context(), c, "wsk0_", quiet)
	if err != nil && strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
		if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" && os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skipf("no right to mount: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.mover.Prepare("c", g.devices[0], container.DeviceRequest{})
	own := filepath.Join(c.GPU.Shim.Dir, "wsk0_mps", "GPU-a")
	want := []container.Mount{{Source: filepath.Join(own, "pipe"), Target: "/run/gpuwhisk-mps"}, {Source: filepath.Join(own, "shm"), Target: "/dev/shm"}}
	if err != nil || !slices.Equal(got.Shared, want) || !slices.Equal(got.Env, []string{"CUDA_MPS_PIPE_DIRECTORY=/run/gpuwhisk-mps"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMPSIsOffUnlessAskedFor(t *testing.T) {
	c, g := mpsHost(t, "process")
	c.GPU.MPS = config.Default().GPU.MPS
	mover := g.mover
	if err := g.startMPS(t.Context(), c, "wsk0_", quiet); err != nil || g.mps != nil || g.mover != mover {
		t.Errorf("%+v, %v", g, err)
	}
	if g.devices[0].Sharing != gpu.Whole {
		t.Errorf("device %+v", g.devices[0])
	}
}

// A daemon that cannot be started ends the start.
func TestMPSThatCannotBeHad(t *testing.T) {
	c, g := mpsHost(t, "process")
	t.Setenv("PATH", t.TempDir())
	if err := g.startMPS(context.Background(), c, "wsk0_", quiet); err == nil || !strings.Contains(err.Error(), "whisk.gpu.mps: find the MPS control daemon") {
		t.Errorf("got %v", err)
	}
	g.devices = g.devices[1:] // nothing to share: nothing is needed
	if err := g.startMPS(context.Background(), c, "wsk0_", quiet); err != nil {
		t.Error(err)
	}
}

// giver is an engine that can give some devices.
type giver struct {
	deviceEngine
	asked []string
}

func (g *giver) CheckDevices(devices ...string) error {
	g.asked = append(g.asked, devices...)
	if slices.Contains(devices, "MIG-b") {
		return errors.New("no way")
	}
	return nil
}

// The engine checks real devices at the start, and a refusal ends it.
func TestDevicesAreCheckedAtTheStart(t *testing.T) {
	_, g := mpsHost(t, "docker")
	e := &giver{}
	if err := g.check(e); err == nil || err.Error() != "whisk.gpu.docker.devices: no way" {
		t.Errorf("got %v", err)
	}
	g.devices = slices.DeleteFunc(g.devices, func(d gpu.Device) bool { return d.UUID == "MIG-b" })
	e.asked = nil
	if err := g.check(e); err != nil || !slices.Equal(e.asked, []string{"GPU-a"}) {
		t.Errorf("asked %v, %v", e.asked, err)
	}
	if err := g.check(nil); err != nil {
		t.Errorf("without an engine: %v", err)
	}
}
