package records

import (
	"testing"
	"time"
)

// TestLingerFollowsArrivals drives arrivals at a steady rate and checks the linger.
func TestLingerFollowsArrivals(t *testing.T) {
	const most = 50 * time.Millisecond
	for _, c := range []struct {
		name      string
		gap       time.Duration
		arrivals  int
		low, high time.Duration
	}{
		{"nothing came", time.Millisecond, 0, 0, 0},
		{"first", time.Millisecond, 1, 0, 0},
		{"rare", 100 * time.Millisecond, 50, 0, 0},
		{"thousand a second", time.Millisecond, 50, most, most},
		{"flood fills a batch sooner", 100 * time.Microsecond, 60, 6 * time.Millisecond, 8 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := arrivalRate{max: most}
			now := time.Unix(1000, 0)
			for range c.arrivals {
				p.arrive(now)
				now = now.Add(c.gap)
			}
			if got := p.linger(); got < c.low || got > c.high {
				t.Errorf("linger %v, want %v to %v", got, c.low, c.high)
			}
		})
	}
	t.Run("a pause ends the linger", func(t *testing.T) {
		p := arrivalRate{max: most}
		now := time.Unix(1000, 0)
		for range 50 {
			p.arrive(now)
			now = now.Add(time.Millisecond)
		}
		p.arrive(now.Add(time.Minute))
		if got := p.linger(); got != 0 {
			t.Errorf("linger %v", got)
		}
	})
}
