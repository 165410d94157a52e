//go:build ansible

package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// unitHost is the host whose invoker becomes a systemd unit.
var unitHost = hosts - 1

// original reports whether OpenWhisk's invoker serves on a host.
func (w *fixture) original(n int) bool {
	w.t.Helper()
	name := fmt.Sprintf("invoker%d", n)
	return w.exists(name) && w.image(n) == stockImage && docker(w.t, "inspect", "--format", "{{.State.Running}}", name) == "true"
}

// TestSwap swaps three invokers under load and back again: two as containers, one as a
// systemd unit.
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
		w.wantOurs(t, n)
	}
	w.wantUnit(unitHost)
	for n := range hosts {
		w.logGap(t, acks, n)
	}
	w.wantForwarded(t)
	if !short {
		w.wantNoMore(t, "swap")
	}
	w.wantStatus(t)
	if !short {
		w.wantStatus(t, "--check")
		w.wantStillOurs(t)
	}

	w.must("gpuwhisk.openwhisk.swap_back")
	for n := range hosts {
		w.wantOriginal(t, n)
	}
	w.wantNoUnit(unitHost)
	if !short {
		w.wantNoMore(t, "swap_back")
	}
	load.end(t)
}

// wantOurs checks that the container with the name of a host's invoker is ours.
func (w *fixture) wantOurs(t *testing.T, n int) {
	t.Helper()
	image := w.image(n)
	check.That(t, strings.HasPrefix(image, "gpuwhisk/invoker:"), "after the swap invoker%d, which is %s, is ours", n, image)
}

// wantOriginal checks that OpenWhisk's invoker serves on a host again.
func (w *fixture) wantOriginal(t *testing.T, n int) {
	t.Helper()
	check.That(t, w.original(n), "%s\nafter the way back invoker%d is the original", w.logs(), n)
}

// wantNoMore runs a playbook of the collection again, and checks that it changes
// nothing.
func (w *fixture) wantNoMore(t *testing.T, book string) {
	t.Helper()
	out := w.must("gpuwhisk.openwhisk." + book)
	check.That(t, unchanged(out), "%s\na second %s changed nothing", out, book)
}

// wantUntouched runs the swap in check mode, and checks that it only reports the
// changes.
func (w *fixture) wantUntouched(t *testing.T) {
	t.Helper()
	out := w.must("gpuwhisk.openwhisk.swap", "--check")
	for n := range hosts {
		check.That(check.Must(t), w.original(n), "%s\n--check left invoker%d as it was", out, n)
	}
	left := w.on(unitHost, "sh", "-c", "ls -d /etc/gpuwhisk /usr/bin/gpuwhisk /var/cache/gpuwhisk 2>/dev/null || true")
	check.Equal(t, left, "", "%s\nchanges by --check", out)
	check.That(t, !unchanged(out), "%s\n--check reports changes", out)
}

// wantStatus checks that the table of all hosts changes nothing.
func (w *fixture) wantStatus(t *testing.T, args ...string) {
	t.Helper()
	out := w.must("gpuwhisk.openwhisk.status", args...)
	check.Equal(t, strings.Count(out, " healthy "), hosts, "%s\nstatus %v: the number of healthy invokers", out, args)
	check.That(t, strings.Contains(out, " unit "), "%s\nstatus %v shows a unit", out, args)
	check.That(t, unchanged(out), "%s\nstatus %v changed nothing", out, args)
	t.Log(out[strings.Index(out, "HOST"):])
}

// wantStillOurs runs the way back in check mode, and checks that it reports a change for
// each host and makes none.
func (w *fixture) wantStillOurs(t *testing.T) {
	t.Helper()
	before := w.running()
	out := w.must("gpuwhisk.openwhisk.swap_back", "--check")
	check.Equal(t, w.running(), before, "running containers after --check of the way back")
	check.Equal(t, strings.Count(out, "would be stopped when it has finished"), hosts, "%s\nthe number of hosts that --check of the way back would change", out)
	check.Lacks(t, out[strings.LastIndex(out, "PLAY RECAP"):], "changed=0 ", "%s\nthe end of --check of the way back", out)
}

// running returns which process serves on each host, and since when.
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

// TestRollback: a host on which our invoker does not start gets its invoker back. The
// hosts after it are not touched, and nothing is lost.
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

// TestUnitRollback: if a unit does not start, OpenWhisk's invoker serves again. If a
// unit was already running, it runs again with its previous settings.
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
	check.That(t, w.original(unitHost), "%s\nafter the failure the original serves", out)
	check.That(t, w.unit(unitHost) != "active", "%s\nafter the failure the unit has ended", out)
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
	out = w.must("gpuwhisk.openwhisk.swap", limit...)
	check.That(t, strings.Contains(out, "changed=0 "), "%s\nthe settings of before are those that were put back", out)
	load.end(t)
}

// mustNot runs a playbook that must fail, and returns its output.
func (w *fixture) mustNot(book string, args ...string) string {
	w.t.Helper()
	out, ok := w.play(book, args...)
	check.That(check.Must(w.t), !ok, "%s\na swap that cannot work fails", out)
	for _, text := range []string{"no-such-policy", "before serves again"} {
		check.That(w.t, strings.Contains(out, text), "%s\nit is shown that %s", out, text)
	}
	return out
}
