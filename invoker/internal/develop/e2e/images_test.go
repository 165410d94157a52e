package e2e

import (
	"path/filepath"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// otherLibc gives images with C libraries that this machine does not have, and
// where the shim and its fake driver for old ones lie.
func otherLibc(t *testing.T) (old, musl string, env map[string]string) {
	t.Helper()
	old, musl = peertest.Variable(t, "GPUWHISK_TEST_OLD_GLIBC", "oldlibc.sh"), peertest.Variable(t, "GPUWHISK_TEST_MUSL", "oldlibc.sh")
	dir := peertest.Variable(t, "GPUWHISK_TEST_OLD_SHIM", "oldlibc.sh")
	return old, musl, map[string]string{
		"CONFIG_whisk_gpu_shim_library": filepath.Join(dir, "libgpuwhisk.so"),
		"CONFIG_whisk_gpu_fakeDriver":   filepath.Join(dir, "fake12"),
	}
}

// TestImagesOfOldAndNew runs a GPU action with an image of its own, whose glibc
// is 2.27, beside one of a kind, whose image has this machine's: they swap each
// other's memory out and in, and each finds its own as it was.
func TestImagesOfOldAndNew(t *testing.T) {
	t.Parallel()
	old, _, env := otherLibc(t)
	w := dockerParts(t)
	w.offer(t, old)
	p := startGPUIn(t, w, 60, setup{env: env})
	code := harness.GPUFunction(t)
	p.insertGPU("old", true, &whisk.Exec{Kind: "blackbox", Image: old, Code: &code})
	p.insertGPU("new", true, python(code))
	for round := range int64(3) {
		for _, name := range []string{"old", "new"} {
			p.gpuCall(name, round+1, []string{"cold", "host-warm"}[min(round, 1)])
		}
	}
	p.wantMetric("gpuwhisk_shim_unhooked_containers", 0)
	p.wantMetric("gpuwhisk_shim_processes", 2)
}

// TestImageWithMusl runs a GPU action in an image with musl: the shim disables itself,
// the program runs and finds no driver, and its container counts as one without memory
// reports.
func TestImageWithMusl(t *testing.T) {
	t.Parallel()
	_, musl, env := otherLibc(t)
	w := dockerParts(t)
	w.offer(t, musl)
	p := startGPUIn(t, w, 60, setup{env: env})
	p.insert(&whisk.Action{
		Name: "alpine", Exec: &whisk.Exec{Kind: "blackbox", Image: musl}, Limits: limits(minutes, 128, 1),
		Annotations: whisk.KeyValueArr{{Key: "gpu", Value: true}},
	})
	for range 2 {
		p.call("alpine", nil).want(t, 0, `"driver":false`, `"preload":"/opt/gpuwhisk/libgpuwhisk.so"`)
	}
	p.atRest()
	p.wantMetric("gpuwhisk_shim_unhooked_containers", 1)
}
