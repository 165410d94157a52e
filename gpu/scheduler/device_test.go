package scheduler

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestConcurrency: a run counts for a number of runs at once only if it shared its
// device with the same number throughout.
func TestConcurrency(t *testing.T) {
	const s = time.Second
	type moment struct {
		at    time.Duration
		enter bool
		run   int
	}
	for name, c := range map[string]struct {
		tale []moment
		want int // of run 0, 0 for none
	}{
		"alone":          {[]moment{{0, true, 0}, {s, false, 0}, {s, true, 1}}, 1},
		"two throughout": {[]moment{{0, true, 1}, {s, true, 0}, {2 * s, false, 0}, {3 * s, false, 1}}, 2},
		"half of it":     {[]moment{{0, true, 0}, {s, true, 1}, {2 * s, false, 0}}, 0},
		"one after the other": {[]moment{
			{0, true, 1}, {0, true, 0}, {s, false, 1}, {s + s/50, true, 2}, {2 * s, false, 0}}, 2},
		"no time at all": {[]moment{{s, true, 1}, {s, true, 0}, {s, false, 0}}, 0},
	} {
		dev := &device{}
		runs := [3]*run{{}, {}, {}}
		for _, m := range c.tale {
			if r := runs[m.run]; m.enter {
				r.launched = m.at
				dev.enter(m.at, r)
			} else {
				dev.leave(m.at, r)
				if k, ok := r.concurrency(m.at); m.run == 0 {
					check.That(t, ok == (c.want > 0), "%s: among %d, %t; want %d", name, k, ok, c.want)
					if ok {
						check.Equal(t, k, c.want, "%s", name)
					}
				}
			}
		}
	}
}

// TestOrphanedWait: a reservation that can stand no more, because others took
// the device's memory meanwhile, does not keep its token until they leave: the run is
// requeued and served by the other device.
func TestOrphanedWait(t *testing.T) {
	s := newScript(t, config("mqfq-sticky", 2))
	s.expect("", Event{Kind: DeviceLost, Device: 1, Why: "for now"})
	one := s.submit("create 1, start 1 in 1 on 0 cold", fn("f", 10*gib))
	s.run("", one, 1, 10*gib)
	s.submit("create 2, evict 1 epoch 1", fn("g", 10*gib))
	s.l.devices[0].ledger.SetForeign(s.now, 14*gib)
	s.holds("remove 1, remove 2", 1, 10*gib, 0)
	d := s.l.Device(0)
	check.Equal(t, d.InFlight, 0, "a token is kept in vain")
	check.Equal(t, d.Memory.Reserved, 0, "a token is kept in vain")
	s.expect("create 3, start 2 in 3 on 1 cold", Event{Kind: DeviceBack, Device: 1})
}

// TestLinkSpeedIsLearnt: the expected time of a move follows the times that were
// measured.
func TestLinkSpeedIsLearnt(t *testing.T) {
	p := linkSpeed{link: gpu.TransferModel{BytesPerSecond: 1e9}, applied: 1e9}
	check.Equal(t, p.time(2e9), 2*time.Second, "by the link")
	p.learn(1<<20, time.Hour)
	check.Equal(t, p.time(2e9), 2*time.Second, "after a small move")
	for range 30 {
		p.learn(1e9, 4*time.Second)
	}
	got := p.time(1e9)
	check.AtLeast(t, got, 3500*time.Millisecond, "moves of 4 seconds a gigabyte")
	check.AtMost(t, got, 4500*time.Millisecond, "moves of 4 seconds a gigabyte")
}
