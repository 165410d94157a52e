package scheduler

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestMissing: the reason for a function that fits nowhere names the missing resource.
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
		check.Contains(t, s.l.Explain(waits.Flow).String(), c.want, "is not in")
		check.Equal(t, s.l.Explain(fn("x", 0).Flow).Missing, "", "a function that runs misses")
	}
}
