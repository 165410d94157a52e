package assembly

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/simulated"
)

// mpsHost is a configuration and GPUs of each kind, with a scripted control
// daemon on PATH.
func mpsHost(t *testing.T, runtime string) (*config.Config, *gpus) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "engine", "mps", "testdata", "nvidia-cuda-mps-control"))
	check.NoError(t, err)
	programs := t.TempDir()
	check.NoError(t, os.WriteFile(filepath.Join(programs, "nvidia-cuda-mps-control"), script, 0o755))
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	dir, err := os.MkdirTemp("", "mps") // short: a socket's path has room for 107 bytes
	check.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := config.Default()
	c.GPU.MPS, c.GPU.Shim.Dir, c.Runtimes.Kind = "shared", dir, runtime
	devices := []gpu.Device{
		{Index: 0, UUID: "GPU-a", MemoryBytes: 1}, {Index: 1, UUID: "MIG-b", MemoryBytes: 1, Sharing: gpu.MIGSlice},
		{Index: 2, MemoryBytes: 1, Simulated: true},
	}
	g := &newAssembly(Options{Config: c, Log: quiet}).gpus
	g.devices, g.mover = devices, simulated.NewMover(gpu.DefaultTransferModel())
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
	check.NoError(t, g.startMPS(t.Context()))
	check.EqualSlices(t, found, before)
	check.Equal(t, g.devices[0].Sharing, gpu.MPSShared)
	check.EqualSlices(t, g.devices[1:], before[1:])
	pipe := filepath.Join(c.GPU.Shim.Dir, "wsk0_mps", "GPU-a", "pipe")
	for i, want := range [][]string{{"CUDA_MPS_PIPE_DIRECTORY=" + pipe}, nil, nil} {
		got, err := g.mover.Prepare("c", g.devices[i], container.DeviceRequest{})
		check.NoError(t, err, "device %d", i)
		check.EqualSlices(t, got.Env, want, "device %d", i)
		check.That(t, got.Shared == nil, "device %d: %+v", i, got)
	}
	g.mps.lost("GPU-a", "x") // before there is an invoker
	g.mps.back("GPU-a")
}

func TestMPSInContainers(t *testing.T) {
	c, g := mpsHost(t, "docker")
	err := g.startMPS(t.Context())
	if err != nil && strings.Contains(err.Error(), "CAP_SYS_ADMIN") {
		if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" && os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skipf("no right to mount: %v", err)
	}
	check.NoError(t, err)
	got, err := g.mover.Prepare("c", g.devices[0], container.DeviceRequest{})
	check.NoError(t, err)
	own := filepath.Join(c.GPU.Shim.Dir, "wsk0_mps", "GPU-a")
	want := []container.Mount{{Source: filepath.Join(own, "pipe"), Target: "/run/gpuwhisk-mps"}, {Source: filepath.Join(own, "shm"), Target: "/dev/shm"}}
	check.EqualSlices(t, got.Shared, want)
	check.EqualSlices(t, got.Env, []string{"CUDA_MPS_PIPE_DIRECTORY=/run/gpuwhisk-mps"})
}

func TestMPSIsOffUnlessAskedFor(t *testing.T) {
	c, g := mpsHost(t, "process")
	c.GPU.MPS = config.Default().GPU.MPS
	mover := g.mover
	check.NoError(t, g.startMPS(t.Context()))
	check.That(t, g.mps == nil)
	check.That(t, g.mover == mover, "%+v", g.mover)
	check.Equal(t, g.devices[0].Sharing, gpu.Whole)
}

// A daemon that cannot be started ends the start.
func TestMPSThatCannotBeHad(t *testing.T) {
	_, g := mpsHost(t, "process")
	t.Setenv("PATH", t.TempDir())
	err := g.startMPS(t.Context())
	check.ErrorContains(t, err, "whisk.gpu.mps: find the MPS control daemon")
	g.devices = g.devices[1:] // nothing to share: nothing is needed
	check.NoError(t, g.startMPS(t.Context()))
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
	err := g.check(e)
	check.That(check.Must(t), err != nil)
	check.Equal(t, err.Error(), "no way")
	g.devices = slices.DeleteFunc(g.devices, func(d gpu.Device) bool { return d.UUID == "MIG-b" })
	e.asked = nil
	check.NoError(t, g.check(e))
	check.EqualSlices(t, e.asked, []string{"GPU-a"})
	check.NoError(t, g.check(nil), "without an engine")
}
