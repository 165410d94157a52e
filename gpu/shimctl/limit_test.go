package shimctl

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
)

// TestLimitIsShared: a container's processes hold no more than its limit
// together, and what one gives back or leaves behind is the others'.
func TestLimitIsShared(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	c.Limit(10*mib, 3*mib)
	first, second := startGuest(t, c), startGuest(t, c)
	for _, g := range []interface{ PID() int }{first, second} {
		rec.awaitUsage(t, g.PID(), 0)
	}
	heard := func() { // who has answered this has heard what was said before
		t.Helper()
		if _, err := c.Report(limited(t)); err != nil {
			t.Fatal(err)
		}
	}
	first.Do("alloc %d", 6*mib)
	rec.awaitUsage(t, first.PID(), 6*mib)
	heard()
	if got := second.Do("try %d", 5*mib); got != 2 {
		t.Errorf("5 MiB beside 6 of 10: the driver says %d, want out of memory", got)
	}
	if got := second.Do("try %d", 4*mib); got != 0 {
		t.Errorf("4 MiB beside 6 of 10: the driver says %d", got)
	}
	rec.awaitUsage(t, second.PID(), 4*mib)
	for _, try := range []struct{ of, bytes, want int64 }{{0, 2 * mib, 0}, {1, 2 * mib, 2}, {1, mib, 0}, {0, 1, 2}} {
		g := []*shimtest.Guest{first, second}[try.of]
		if got := g.Do("pin %d", try.bytes); got != try.want {
			t.Errorf("pinning %d of 3 MiB, together: the driver says %d, want %d", try.bytes, got, try.want)
		}
		heard() // what it pins is said, and the others are told
		heard()
	}
	first.Kill()
	for c.Processes() != 1 {
		heard()
	}
	heard()
	if got := second.Do("try %d", 6*mib); got != 0 {
		t.Errorf("6 MiB after the other has ended: the driver says %d", got)
	}
}
