package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// TestOneContainerMoreThanTokens: three functions share a token and one more container,
// also where the logs of a run take longer to read than the run takes.
func TestOneContainerMoreThanTokens(t *testing.T) {
	for _, policy := range served {
		for tokens, run := range map[int]time.Duration{1: time.Second, 2: 100 * time.Millisecond} {
			a, b, d := always("a", run, gib), always("b", run, gib), always("d", run, gib)
			w := newWorld(t, worldConfig(policy, tokens, tokens+1, 16*gib), a, b, d)
			w.logs = time.Duration(tokens*tokens) * 75 * time.Millisecond
			w.watch(a, b, d)
			w.until(hours(time.Hour))
			w.within(fmt.Sprint(policy, ", D = ", tokens, ", one container more"))
		}
	}
}

// TestLimitWithOneEvent: the token and the container of a run become free at once, without a
// decision in between.
func TestLimitWithOneEvent(t *testing.T) {
	for _, policy := range served {
		a, b := always("a", time.Second, 3*gib), always("b", time.Second, 3*gib)
		c := worldConfig(policy, 2, 8, 16*gib)
		c.NamespaceLimits = map[string]int64{"ns": 4 * gib}
		w := newWorld(t, c, a, b)
		w.together = true
		w.watch(a, b)
		w.until(hours(time.Hour))
		w.within(policy)
	}
}

// TestLimitBesideABusyFunction: a function that is called every 30 s shares its namespace's
// limit with one that needs nearly all of the time. Neither always has work queued.
func TestLimitBesideABusyFunction(t *testing.T) {
	for _, policy := range served {
		busy, rare := always("busy", time.Second, 3*gib), always("rare", 500*time.Millisecond, 3*gib)
		busy.keep, rare.keep = 0, 0
		c := worldConfig(policy, 2, 8, 16*gib)
		c.NamespaceLimits = map[string]int64{"*": 4 * gib}
		w := newWorld(t, c, busy, rare)
		w.logs = 20 * time.Millisecond
		w.callEvery(busy, 1053*time.Millisecond)
		w.callEvery(rare, 30*time.Second)
		longest := time.Duration(0)
		for since := time.Duration(0); w.step(hours(3 * time.Hour)); {
			if rare.queued == 0 {
				since = w.now
			}
			longest = max(longest, w.now-since)
		}
		bound := sched.GapBound(w.c.Sched.MaxOverrun(), w.c.Tokens.Max, busy.longest, 1, rare.longest, 1)
		check.AtMost(t, longest, bound, "%s: time in which the rare function always had a call queued", policy)
		check.AtLeast(t, rare.done, rare.submitted-1, "%s: rare calls", policy)
		t.Logf("%s: the rare function had calls queued for at most %s, allowed are %s", policy, longest, bound)
	}
}

// TestWaitBesideAnotherNamespace: functions of one namespace keep the bound if one of them
// may wait for its container while another namespace takes the token.
func TestWaitBesideAnotherNamespace(t *testing.T) {
	a, b := always("a", 300*time.Millisecond, gib), always("b", time.Second, gib)
	c, d := always("c", time.Second, gib), always("d", time.Second, gib)
	c.namespace, d.namespace, c.keep, d.keep = "other", "other", 3, 3
	w := newWorld(t, worldConfig("sticky-plus", 2, 8, 16*gib), a, b, c, d)
	w.watch(a, b)
	w.watch(c, d)
	w.until(hours(2 * time.Hour))
	w.within("beside another namespace")
}

// TestWaitWithOneContainer: a function that was called once has one container when its load
// begins, and a start of another takes 20 s.
func TestWaitWithOneContainer(t *testing.T) {
	a, b := always("a", time.Second, gib), always("b", time.Second, gib)
	a.init, b.init, a.keep, b.keep = 20*time.Second, 500*time.Millisecond, 0, 0
	w := newWorld(t, worldConfig("sticky-plus", 4, 8, 16*gib), a, b)
	w.submit(a)
	w.after(time.Minute, func() { a.keep, b.keep = 4, 40 })
	w.watch(a, b)
	w.until(hours(2 * time.Hour))
	w.within("a container from before the load")
}

// TestSmallFloods: two ordinary functions beside a namespace with more functions than there
// are containers.
func TestSmallFloods(t *testing.T) {
	for _, flood := range []struct{ functions, pool int }{{4, 3}, {12, 4}, {100, 8}} {
		a, b := always("honest", time.Second, gib), always("second", 300*time.Millisecond, gib)
		a.namespace, b.namespace = "h", "h"
		w := newWorld(t, worldConfig("sticky-plus", 2, flood.pool, 16*gib), a, b)
		for i := range flood.functions {
			f := always(fmt.Sprint("x", i), time.Second, gib)
			f.namespace, f.keep = "flood", 3
			w.add(f)
		}
		w.watch(a, b)
		w.until(hours(20 * time.Minute))
		w.within(fmt.Sprint("beside ", flood.functions, " functions"))
	}
}
