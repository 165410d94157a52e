package sched

import (
	"math"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestBadConfig sees every error name the key and the value.
func TestBadConfig(t *testing.T) {
	cases := []struct {
		spoil func(*Config)
		want  []string
	}{
		{func(c *Config) { c.Gap = -1 }, []string{"Gap", "-1ns"}},
		{func(c *Config) { c.Overrun = -1 }, []string{"Overrun", "-1ns"}},
		{func(c *Config) { c.Overrun = 25 * time.Hour }, []string{"Overrun", "25h"}},
		{func(c *Config) { c.TTLAlpha = math.NaN() }, []string{"TTLAlpha", "NaN"}},
		{func(c *Config) { c.TTLAlpha = -0.5 }, []string{"TTLAlpha", "-0.5"}},
		{func(c *Config) { c.TTLMin = -time.Second }, []string{"TTLMin", "-1s"}},
		{func(c *Config) { c.TTLMax = c.TTLMin - 1 }, []string{"TTLMax", "99.999999ms"}},
		{func(c *Config) { c.InitialCharge = -1 }, []string{"InitialCharge", "-1ns"}},
		{func(c *Config) { c.FixedCharge = -1 }, []string{"FixedCharge", "-1ns"}},
		{func(c *Config) { c.KeepInactive = -1 }, []string{"KeepInactive", "-1ns"}},
		{func(c *Config) { c.MaxFlows = 0 }, []string{"MaxFlows", "=0"}},
	}
	for _, c := range cases {
		cfg, _ := Defaults("mqfq-sticky")
		c.spoil(&cfg)
		_, err := New("mqfq-sticky", cfg, everywhere{})
		for _, w := range c.want {
			check.ErrorContains(t, err, w, "%v", c.want)
		}
	}
}

func TestPoliciesByName(t *testing.T) {
	for _, p := range Policies() {
		cfg, ok := Defaults(p.Name)
		check.That(t, ok, "defaults of %s", p.Name)
		check.That(t, p.Text != "", "%s is described", p.Name)
		if _, err := New(p.Name, cfg, everywhere{}); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	_, ok := Defaults("lottery")
	check.That(t, !ok, "no defaults of an unknown policy")
	_, err := New("lottery", Config{}, everywhere{})
	check.ErrorContains(t, err, `"lottery"`)
	check.ErrorContains(t, err, "mqfq-sticky, sticky-plus")
	cfg, _ := Defaults("fcfs")
	cfg.Shortest = true
	_, err = New("fcfs", cfg, everywhere{})
	check.ErrorContains(t, err, "Shortest")
}

func TestBadWeights(t *testing.T) {
	s := newScheduler(t, "mqfq-sticky", everywhere{}, nil)
	for _, w := range []float64{0, -1, math.NaN(), math.Inf(1), 1001} {
		check.ErrorContains(t, s.SetWeight(0, FlowID{"ns", "fn"}, w), "ns/fn", "weight %v", w)
	}
	s = newScheduler(t, "mqfq-sticky", everywhere{}, func(c *Config) { c.Namespaces = false })
	check.ErrorContains(t, s.SetNamespaceWeight(0, "ns", 2), "Namespaces")
	s = newScheduler(t, "mqfq-sticky", everywhere{}, nil)
	check.ErrorContains(t, s.SetNamespaceWeight(0, "ns", 0), "ns")
}

// TestMisusePanics: mistakes of the owner must not be swallowed.
func TestMisusePanics(t *testing.T) {
	for name, misuse := range map[string]func(*Scheduler){
		"repeated id":        func(s *Scheduler) { s.Enqueue(0, Invocation{ID: 1}) },
		"done of queued":     func(s *Scheduler) { s.Done(0, 1, Usage{}) },
		"undo of unknown":    func(s *Scheduler) { s.Undo(0, 7) },
		"abandon of unknown": func(s *Scheduler) { s.Abandon(0, 7) },
		"device twice":       func(s *Scheduler) { s.AddDevice(0, 0, 1) },
		"unknown device":     func(s *Scheduler) { s.SetTokens(0, 5, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScheduler(t, "mqfq-sticky", everywhere{}, nil)
			s.AddDevice(0, 0, 0)
			s.Enqueue(0, Invocation{ID: 1})
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse(s)
		})
	}
}
