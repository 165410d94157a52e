package scheduler

import (
	"strings"
	"testing"
)

// TestMissing: the reason of a function that fits nowhere names what is missing.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Config)
		used   int64
	}{
		{"MiB of device memory, and others that run hold too much", func(*Config) {}, 15 * gib},
		{"all 1 containers of the device are in use (whisk.gpu.pool-size)", func(c *Config) { c.Pool.Size = 1 }, gib},
		{"limit of 2048 MiB of device memory (whisk.gpu.namespace-limits)", func(c *Config) { c.NamespaceLimits = map[string]int64{"*": 2 * gib} }, 2 * gib},
	} {
		cfg := config("fcfs", 1)
		cfg.Tokens.Max = 2
		c.change(&cfg)
		s := newScript(t, cfg)
		s.submit("create 1, start 1 in 1 on 0 cold", fn("x", c.used))
		waits := fn("y", gib)
		s.submit("", waits)
		if why := s.l.Explain(waits.Flow).String(); !strings.Contains(why, c.want) {
			t.Errorf("%q is not in: %s", c.want, why)
		}
		if why := s.l.Explain(fn("x", 0).Flow); why.Missing != "" {
			t.Errorf("a function that runs misses %s", why.Missing)
		}
	}
}
