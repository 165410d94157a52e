package shimctl

import "testing"

// TestLimitIsShared: a container's processes hold no more than its limit
// together, and what one gives back or leaves behind is the others'.
func TestLimitIsShared(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	c.Limit(10 * mib)
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
	first.Kill()
	for c.Processes() != 1 {
		heard()
	}
	heard()
	if got := second.Do("try %d", 6*mib); got != 0 {
		t.Errorf("6 MiB after the other has ended: the driver says %d", got)
	}
}
