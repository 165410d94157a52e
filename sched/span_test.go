package sched

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// spans are functions whose estimates are never right, beside one that is honest:
// few enough runs that a million seconds of them can be played.
func spans() map[string][]pattern {
	honest := steady(20 * time.Second)
	irregular := uneven(49, ms(100), 5*time.Minute)
	return map[string][]pattern{
		"forty-nine and one": {irregular, honest},
		"on and off":         {onOff(irregular, 30*time.Minute, 20*time.Minute), onOff(steady(9*time.Second), time.Hour, 10*time.Minute), honest},
		"growing":            {growing(time.Second), honest},
	}
}

// servers are one to eight devices, and unequal ones: with other tokens, and
// slower.
func servers() map[string]contest {
	return map[string]contest{
		"one":     {tokens: []int{1}},
		"one D=2": {tokens: []int{2}},
		"two":     {tokens: []int{1, 1}},
		"four":    {tokens: []int{1, 1, 1, 1}},
		"eight":   {tokens: []int{1, 1, 1, 1, 1, 1, 1, 1}},
		"unequal": {tokens: []int{3, 1, 1}, slow: []int{1, 1, 4}},
	}
}

// TestMillionSeconds holds the bound on service over a million seconds, without
// an end to the number of runs; a plain test plays a tenth of that and less under
// the race detector.
func TestMillionSeconds(t *testing.T) {
	for _, policy := range bounded() {
		for name, patterns := range spans() {
			t.Run(policy+"/"+name, func(t *testing.T) {
				t.Parallel()
				for server, c := range servers() {
					c.policy, c.patterns, c.whole, c.span = policy, patterns, true, spanOf(1_000_000*time.Second)
					r := c.play(t)
					check.AtMost(t, r.flows, 1, "%s, service %.0f s", server, r.service)
					check.AtLeast(t, r.service[0]+r.service[1], c.span.Seconds()/2, "%s", server)
				}
			})
		}
	}
}

// TestMillionSecondsCanBreak leaves out the settling of charges, or the window:
// each mix of functions on each server exceeds the bound by one or the other.
func TestMillionSecondsCanBreak(t *testing.T) {
	if raced {
		t.Skip("starts no goroutines: run without the race detector")
	}
	for name, patterns := range spans() {
		for server, c := range servers() {
			t.Run(name+"/"+server, func(t *testing.T) {
				t.Parallel()
				c.policy, c.patterns, c.whole, c.span = "least-time", patterns, true, 100_000*time.Second
				c.adjust = func(c *Config) { c.Correct = false }
				unsettled := c.play(t).flows
				c.adjust, c.spoil = nil, func(s *Scheduler, _ *flow) { s.order.Key, s.windowed, s.overrun = byService, false, endless }
				boundless := c.play(t).flows
				t.Logf("the gap is %.2f of the bound without settling, %.2f without the window", unsettled, boundless)
				if max(unsettled, boundless) <= 1 {
					t.Errorf("broken on purpose, and the gap stays at %.2f and %.2f of the bound", unsettled, boundless)
				}
			})
		}
	}
}
