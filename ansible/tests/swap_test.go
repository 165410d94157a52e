//go:build ansible

package tests

import (
	"strings"
	"testing"
)

// TestSwap swaps three invokers under load and back again.
func TestSwap(t *testing.T) {
	w := newWorld(t)
	w.must("deploy.yml")
	w.healthy()
	load := w.startLoad()

	out := w.must("gpuwhisk.openwhisk.swap", "--check")
	for n := range hosts {
		if image := w.image(n); image != stockImage {
			t.Fatalf("--check changed invoker%d to %s:\n%s", n, image, out)
		}
	}
	if unchanged(out) {
		t.Errorf("--check tells of no change:\n%s", out)
	}

	w.must("gpuwhisk.openwhisk.swap")
	for n := range hosts {
		if image := w.image(n); !strings.HasPrefix(image, "gpuwhisk/invoker:") {
			t.Errorf("after the swap invoker%d is %s", n, image)
		}
	}
	if out := w.must("gpuwhisk.openwhisk.swap"); !unchanged(out) {
		t.Errorf("a second swap changed something:\n%s", out)
	}
	out = w.must("gpuwhisk.openwhisk.status")
	if strings.Count(out, " healthy ") != hosts {
		t.Errorf("status does not show %d healthy invokers:\n%s", hosts, out)
	}
	t.Log(out[strings.Index(out, "HOST"):])

	w.must("gpuwhisk.openwhisk.swap_back")
	for n := range hosts {
		if image := w.image(n); image != stockImage {
			t.Errorf("after the way back invoker%d is %s", n, image)
		}
	}
	if out := w.must("gpuwhisk.openwhisk.swap_back"); !unchanged(out) {
		t.Errorf("a second swap back changed something:\n%s", out)
	}
	load.end(t)
}

// TestRollback: a host where ours does not start gets its invoker back, those
// after it are left alone, and nothing is lost.
func TestRollback(t *testing.T) {
	w := newWorld(t)
	w.hosts[1] = `gpuwhisk_env='{"CONFIG_whisk_gpu_policy": "no-such-policy"}' gpuwhisk_doctor=never gpuwhisk_ready_wait=5`
	w.save()
	w.must("deploy.yml")
	w.healthy()
	load := w.startLoad()
	out, ok := w.play("gpuwhisk.openwhisk.swap")
	if ok {
		t.Fatalf("a swap that cannot work is called a success:\n%s", out)
	}
	if !strings.Contains(out, "no-such-policy") || !strings.Contains(out, "before serves again") {
		t.Errorf("the reason is not shown:\n%s", out)
	}
	for n, ours := range []bool{true, false, false} {
		if image := w.image(n); strings.HasPrefix(image, "gpuwhisk/") != ours {
			t.Errorf("after the failure on host1 invoker%d is %s:\n%s", n, image, out)
		}
	}
	w.healthy()
	load.end(t)
}
