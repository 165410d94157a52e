package shimctl

import "testing"

// TestEndOfRunIsAnswered: one question ends a run and tells what is held after
// it, in a backend that moves and in one that only counts.
func TestEndOfRunIsAnswered(t *testing.T) {
	for _, backend := range []string{"managed", "count"} {
		ctl, rec := openControl(t, Settings{})
		c := openContainer(t, ctl, backend)
		if held, err := c.Ended(limited(t)); err != nil || len(held) != 0 {
			t.Errorf("%s: nobody is there, and says %v, %v", backend, held, err)
		}
		g := startGuest(t, c, "GPUWHISK_SHIM="+backend)
		rec.awaitUsage(t, g.PID(), 0)
		c.Running(true)
		g.Do("alloc %d", 8*mib)
		g.Do("fill 0 1")
		held, err := c.Ended(limited(t))
		if u := held[g.PID()]; err != nil || len(held) != 1 || u.Allocated != 8*mib || u.Resident != 8*mib {
			t.Errorf("%s: %v, %v", backend, held, err)
		}
		g.Kill()
	}
}
