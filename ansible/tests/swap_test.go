//go:build ansible

package tests

import (
	"fmt"
	"strings"
	"testing"
)

// unitHost is the host whose invoker becomes a unit of systemd.
var unitHost = hosts - 1

// original reports whether the original serves on a host.
func (w *fixture) original(n int) bool {
	w.t.Helper()
	name := fmt.Sprintf("invoker%d", n)
	return w.exists(name) && w.image(n) == stockImage && docker(w.t, "inspect", "--format", "{{.State.Running}}", name) == "true"
}

// TestSwap swaps three invokers under load and back again: two as containers,
// one as a unit of systemd.
func TestSwap(t *testing.T) {
	w := newFixture(t)
	w.giveSystemd(unitHost)
	w.mixFleet()
	w.deployOriginal()
	acks, load := w.watchAcks(), w.startLoad()
	if !short {
		w.wantUntouched(t)
	}
	w.logYardstick(t)
	w.must("gpuwhisk.openwhisk.swap")
	w.logYardstick(t)
	for n := range unitHost {
		if image := w.image(n); !strings.HasPrefix(image, "gpuwhisk/invoker:") {
			t.Errorf("after the swap invoker%d is %s", n, image)
		}
	}
	w.wantUnit(unitHost)
	for n := range hosts {
		w.logGap(t, acks, n)
	}
	w.wantForwarded(t)
	if !short {
		if out := w.must("gpuwhisk.openwhisk.swap"); !unchanged(out) {
			t.Errorf("a second swap changed something:\n%s", out)
		}
	}
	w.wantStatus(t)
	if !short {
		w.wantStatus(t, "--check")
		w.wantStillOurs(t)
	}

	w.must("gpuwhisk.openwhisk.swap_back")
	for n := range hosts {
		if !w.original(n) {
			t.Errorf("after the way back invoker%d is not the original:\n%s", n, w.logs())
		}
	}
	w.wantNoUnit(unitHost)
	if !short {
		if out := w.must("gpuwhisk.openwhisk.swap_back"); !unchanged(out) {
			t.Errorf("a second swap back changed something:\n%s", out)
		}
	}
	load.end(t)
}

// wantUntouched runs the check mode, which reports what it would do.
func (w *fixture) wantUntouched(t *testing.T) {
	t.Helper()
	out := w.must("gpuwhisk.openwhisk.swap", "--check")
	for n := range hosts {
		if !w.original(n) {
			t.Fatalf("--check changed invoker%d:\n%s", n, out)
		}
	}
	if left := w.on(unitHost, "sh", "-c", "ls -d /etc/gpuwhisk /usr/bin/gpuwhisk /var/cache/gpuwhisk 2>/dev/null || true"); left != "" || unchanged(out) {
		t.Errorf("--check made %s, or reports no change:\n%s", left, out)
	}
}

// wantStatus shows the table of all hosts, which changes nothing.
func (w *fixture) wantStatus(t *testing.T, args ...string) {
	t.Helper()
	out := w.must("gpuwhisk.openwhisk.status", args...)
	if strings.Count(out, " healthy ") != hosts || !strings.Contains(out, " unit ") || !unchanged(out) {
		t.Errorf("status %v does not show %d healthy invokers, or changed something:\n%s", args, hosts, out)
	}
	t.Log(out[strings.Index(out, "HOST"):])
}

// wantStillOurs runs the way back in check mode, which reports of each host that
// it would change, and touches none.
func (w *fixture) wantStillOurs(t *testing.T) {
	t.Helper()
	before := w.running()
	out := w.must("gpuwhisk.openwhisk.swap_back", "--check")
	if after := w.running(); after != before {
		t.Errorf("--check of the way back: before it ran\n%s\nand after it\n%s", before, after)
	}
	if strings.Count(out, "would be stopped when it has finished") != hosts || strings.Contains(out[strings.LastIndex(out, "PLAY RECAP"):], "changed=0 ") {
		t.Errorf("--check of the way back does not report what it would do:\n%s", out)
	}
}

// running reports which process serves on each host, and since when.
func (w *fixture) running() string {
	w.t.Helper()
	var all strings.Builder
	for n := range hosts {
		name := fmt.Sprintf("invoker%d", n)
		if w.machines[n] != "" && !w.exists(name) {
			all.WriteString(w.on(n, "systemctl", "show", "--property=ActiveState,MainPID,ExecMainStartTimestampMonotonic", fmt.Sprintf("gpuwhisk@%d", n)) + "\n")
			continue
		}
		all.WriteString(docker(w.t, "inspect", "--format", "{{.Id}} {{.State.Pid}} {{.State.StartedAt}}", name) + "\n")
	}
	return all.String()
}

// TestRollback: a host where ours does not start gets its invoker back, those
// after it are left alone, and nothing is lost.
func TestRollback(t *testing.T) {
	long(t)
	w := newFixture(t)
	w.hosts[1] = `gpuwhisk_env='{"CONFIG_whisk_gpu_policy": "no-such-policy"}' gpuwhisk_doctor=never gpuwhisk_ready_wait=5`
	w.save()
	w.deployOriginal()
	load := w.startLoad()
	out := w.mustNot("gpuwhisk.openwhisk.swap")
	for n, ours := range []bool{true, false, false} {
		if w.original(n) == ours {
			t.Errorf("after the failure on host1 invoker%d is %s:\n%s", n, w.image(n), out)
		}
	}
	w.healthy()
	load.end(t)
}

// TestUnitRollback: where a unit does not start the original serves again; and
// where one runs already, it runs again with the settings that it had.
func TestUnitRollback(t *testing.T) {
	long(t)
	w := newFixture(t)
	w.giveSystemd(unitHost)
	w.deployOriginal()
	load := w.startLoad()
	good := w.hosts[unitHost]
	limit := []string{"--limit", fmt.Sprintf("host%d", unitHost)}

	w.hosts[unitHost] = good + ` gpuwhisk_env='{"CONFIG_whisk_gpu_policy": "no-such-policy"}' gpuwhisk_doctor=never gpuwhisk_ready_wait=5`
	w.save()
	out := w.mustNot("gpuwhisk.openwhisk.swap", limit...)
	if !w.original(unitHost) || w.unit(unitHost) == "active" {
		t.Errorf("after the failure the original does not serve:\n%s", out)
	}
	w.healthy()

	broken := w.hosts[unitHost]
	w.hosts[unitHost] = good
	w.save()
	w.must("gpuwhisk.openwhisk.swap", limit...)
	w.wantUnit(unitHost)

	w.hosts[unitHost] = broken
	w.save()
	w.mustNot("gpuwhisk.openwhisk.swap", limit...)
	w.wantUnit(unitHost)
	w.healthy()
	w.hosts[unitHost] = good
	w.save()
	if out := w.must("gpuwhisk.openwhisk.swap", limit...); !strings.Contains(out, "changed=0 ") {
		t.Errorf("the settings of before are not those that were put back:\n%s", out)
	}
	load.end(t)
}

// mustNot runs a playbook that must fail, and returns what it prints.
func (w *fixture) mustNot(book string, args ...string) string {
	w.t.Helper()
	out, ok := w.play(book, args...)
	if ok {
		w.t.Fatalf("a swap that cannot work is called a success:\n%s", out)
	}
	if !strings.Contains(out, "no-such-policy") || !strings.Contains(out, "before serves again") {
		w.t.Errorf("the reason is not shown:\n%s", out)
	}
	return out
}
