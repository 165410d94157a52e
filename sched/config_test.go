package sched

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestBadConfig sees every error name the key and the value.
func TestBadConfig(t *testing.T) {
	cases := []struct {
		spoil func(*Config)
		want  []string
	}{
		{func(c *Config) { c.Slowdown = -1 }, []string{"Slowdown", "-1"}},
		{func(c *Config) { c.MinWait = -1 }, []string{"MinWait", "-1ns"}},
		{func(c *Config) { c.Gap = -1 }, []string{"Gap", "-1ns"}},
		{func(c *Config) { c.Overrun = -1 }, []string{"Overrun", "-1ns"}},
		{func(c *Config) { c.Overrun = 25 * time.Hour }, []string{"Overrun", "25h"}},
		{func(c *Config) { c.TTLAlpha = math.NaN() }, []string{"TTLAlpha", "NaN"}},
		{func(c *Config) { c.TTLAlpha = -0.5 }, []string{"TTLAlpha", "-0.5"}},
		{func(c *Config) { c.TTLMin = -time.Second }, []string{"TTLMin", "-1s"}},
		{func(c *Config) { c.TTLMax = c.TTLMin - 1 }, []string{"TTLMax", "99.999999ms"}},
		{func(c *Config) { c.Smoothing = 0 }, []string{"Smoothing", "=0"}},
		{func(c *Config) { c.Smoothing = 1.5 }, []string{"Smoothing", "1.5"}},
		{func(c *Config) { c.InitialCharge = -1 }, []string{"InitialCharge", "-1ns"}},
		{func(c *Config) { c.FixedCharge = -1 }, []string{"FixedCharge", "-1ns"}},
		{func(c *Config) { c.DeficitLimit = 0 }, []string{"DeficitLimit", "=0"}},
		{func(c *Config) { c.DeficitLimit = math.Inf(1) }, []string{"DeficitLimit", "+Inf"}},
		{func(c *Config) { c.KeepInactive = -1 }, []string{"KeepInactive", "-1ns"}},
		{func(c *Config) { c.MaxFlows = 0 }, []string{"MaxFlows", "=0"}},
	}
	for _, c := range cases {
		cfg, _ := Defaults("mqfq-sticky")
		c.spoil(&cfg)
		_, err := New("mqfq-sticky", cfg, nil)
		if err == nil {
			t.Errorf("%v: no error", c.want)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("error %q does not contain %q", err, w)
			}
		}
	}
}

func TestPoliciesByName(t *testing.T) {
	for _, p := range Policies() {
		cfg, ok := Defaults(p.Name)
		if !ok || p.Text == "" {
			t.Errorf("%s: no defaults or no description", p.Name)
		}
		if _, err := New(p.Name, cfg, nil); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	if _, ok := Defaults("lottery"); ok {
		t.Error("defaults of an unknown policy")
	}
	_, err := New("lottery", Config{}, nil)
	if err == nil || !strings.Contains(err.Error(), `"lottery"`) || !strings.Contains(err.Error(), "mqfq-sticky, sticky-plus") {
		t.Errorf("unknown policy: %v", err)
	}
	cfg, _ := Defaults("sjf")
	cfg.Shortest = true
	if _, err := New("sjf", cfg, nil); err == nil || !strings.Contains(err.Error(), "Shortest") {
		t.Errorf("shortest sjf: %v", err)
	}
}

func TestBadWeights(t *testing.T) {
	s := newScheduler(t, "mqfq-sticky", nil, nil)
	for _, w := range []float64{0, -1, math.NaN(), math.Inf(1), 1001} {
		if err := s.SetWeight(0, FlowID{"ns", "fn"}, w); err == nil || !strings.Contains(err.Error(), "ns/fn") {
			t.Errorf("weight %v: %v", w, err)
		}
	}
	s = newScheduler(t, "mqfq-sticky", nil, func(c *Config) { c.Namespaces = false })
	if err := s.SetNamespaceWeight(0, "ns", 2); err == nil || !strings.Contains(err.Error(), "Namespaces") {
		t.Errorf("namespace weight without namespaces: %v", err)
	}
	s = newScheduler(t, "mqfq-sticky", nil, nil)
	if err := s.SetNamespaceWeight(0, "ns", 0); err == nil || !strings.Contains(err.Error(), "ns") {
		t.Errorf("namespace weight 0: %v", err)
	}
}

// TestMisusePanics: what the owner does wrong must not be swallowed.
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
			s := newScheduler(t, "mqfq-sticky", nil, nil)
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
