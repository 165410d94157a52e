//go:build cgo && linux

package devices

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestFakeNVML finds and watches devices by the real binding to a library that
// reports what a file has.
func TestFakeNVML(t *testing.T) {
	dir := shimDir(t)
	script := filepath.Join(t.TempDir(), "script")
	want := func(text string) {
		check.NoError(t, os.WriteFile(script+".new", []byte(text), 0o600))
		check.NoError(t, os.Rename(script+".new", script))
	}
	want("utilization 1 50\n")
	t.Setenv("FAKE_NVML_SCRIPT", script)
	t.Setenv("FAKE_NVML_DEVICES", "2")
	b := open(t, nil)
	bare := b.bare(name)
	t.Setenv("FAKE_CUDA_STATE", filepath.Join(b.deviceDir(simulatedDevice()), stateName))
	h, err := OpenHost("0,1", nvml.Options{Library: filepath.Join(dir, "nvml", "libnvidia-ml.so.1")}, nil)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(h.Devices), 2)
	check.That(check.Must(t), !h.Devices[0].Simulated, "devices %+v", h.Devices)
	check.That(check.Must(t), h.Devices[0].MemoryBytes != 0, "devices %+v", h.Devices)
	o := make(report, 1000)
	check.NoError(t, h.Watch(o, b.Mover))
	b.seesWhatIsThere(bare)
	o.await(t, "utilization 0.5")
	want("utilization 1 50\nlost 1\n")
	o.await(t, "lost")
	want("utilization 1 20\n")
	o.await(t, "back")
	o.await(t, "utilization 0.2")
	check.NoError(t, h.Close(t.Context()))
}
