package sim

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// cell is a server with a workload that claims and figures read: one run for
// each seed, however many of them need it.
type cell struct {
	Task             // without seed
	bySeed []*Result // once run
}

// cells are all that claims or figures need.
type cells struct {
	index map[string]*cell
	list  []*cell
}

func newCells() *cells { return &cells{index: make(map[string]*cell)} }

// mod changes one parameter of a cell.
type mod func(*Options, *Spec)

const (
	mqfq = "mqfq-sticky"
	plus = "sticky-plus"
)

// seriesLoad is the load of the zipf class whose windows are kept for a figure.
const seriesLoad = 0.9

// add returns the cell of a workload under a policy, made if it is new.
func (c *cells) add(s Spec, policy string, mods ...mod) *cell {
	var o Options
	for _, m := range mods {
		m(&o, &s)
	}
	server, err := o.Apply(mqfq)
	if err != nil {
		panic(fmt.Sprintf("sim: a claim's own parameters are wrong: %v", err))
	}
	s = s.For(server)
	p, err := o.Apply(policy)
	if err != nil {
		panic(fmt.Sprintf("sim: a claim's own parameters are wrong: %v", err))
	}
	p.Series = s.Kind == "copies" || s.Kind == "zipf" && s.Load == seriesLoad || s.Kind == "azure" && policy == mqfq
	key := fmt.Sprintf("%+v %+v", s, p)
	if _, ok := c.index[key]; !ok {
		c.index[key] = &cell{Task: Task{Source: c.source(s), Params: p}}
		c.list = append(c.list, c.index[key])
	}
	return c.index[key]
}

// source shares the source of equal specs.
func (c *cells) source(s Spec) *Source {
	for _, t := range c.list {
		if t.Source.spec == s {
			return t.Source
		}
	}
	return s.Source()
}

func (c *cells) kind(kind, policy string, mods ...mod) *cell {
	s := DefaultSpec()
	s.Kind = kind
	return c.add(s, policy, mods...)
}

func (c *cells) zipf(policy string, mods ...mod) *cell { return c.kind("zipf", policy, mods...) }

// medium is the paper's trace 4; trace n its others.
func (c *cells) medium(policy string, mods ...mod) *cell { return c.trace(4, policy, mods...) }

func (c *cells) trace(id int, policy string, mods ...mod) *cell {
	return c.kind("azure", policy, append(mods[:len(mods):len(mods)], func(_ *Options, s *Spec) { s.TraceID = id })...)
}

// rare is the crowd's run under a policy, on a server with memory for it.
func (c *cells) rare(policy string) *cell {
	return c.kind("rare", policy, memory(80*gib), pool(128), load(1.1), lasting(10*time.Minute))
}

// with sets one of the options.
func with[T any](to func(*Options) **T, v T) mod { return func(o *Options, _ *Spec) { *to(o) = &v } }

func tokens(n int) mod         { return with(func(o *Options) **int { return &o.Tokens }, n) }
func pool(n int) mod           { return with(func(o *Options) **int { return &o.Pool }, n) }
func devices(n int) mod        { return with(func(o *Options) **int { return &o.Devices }, n) }
func memory(b Bytes) mod       { return with(func(o *Options) **Bytes { return &o.Memory }, b) }
func headroom(b Bytes) mod     { return with(func(o *Options) **Bytes { return &o.Headroom }, b) }
func alpha(a float64) mod      { return with(func(o *Options) **float64 { return &o.TTLAlpha }, a) }
func link(gbs float64) mod     { return with(func(o *Options) **float64 { return &o.SwapBandwidth }, gbs) }
func retain(rule string) mod   { return with(func(o *Options) **string { return &o.Retention }, rule) }
func prefetch(when string) mod { return with(func(o *Options) **string { return &o.Prefetch }, when) }
func overrun(d time.Duration) mod {
	return with(func(o *Options) **time.Duration { return &o.Overrun }, d)
}
func charged(d time.Duration) mod {
	return with(func(o *Options) **time.Duration { return &o.FixedCharge }, d)
}
func undrained() mod             { return with(func(o *Options) **time.Duration { return &o.Drain }, 0) }
func wait(yes bool) mod          { return with(func(o *Options) **bool { return &o.Wait }, yes) }
func correct(yes bool) mod       { return with(func(o *Options) **bool { return &o.Correct }, yes) }
func shortestFirst(yes bool) mod { return with(func(o *Options) **bool { return &o.Shortest }, yes) }
func dynamic() mod               { return with(func(o *Options) **bool { return &o.DynamicTokens }, true) }
func swapEachRun() mod           { return with(func(o *Options) **bool { return &o.SwapEachRun }, true) }
func globalTTL() mod             { return with(func(o *Options) **bool { return &o.TTLGlobal }, true) }
func leastTTL(d time.Duration) mod {
	return with(func(o *Options) **time.Duration { return &o.TTLMin }, d)
}
func ttl(d time.Duration) mod     { return func(o *Options, _ *Spec) { o.TTLMin, o.TTLMax = &d, &d } }
func interfere(s ...float64) mod  { return func(o *Options, _ *Spec) { o.Interference = s } }
func load(l float64) mod          { return func(_ *Options, s *Spec) { s.Load = l } }
func largeOnly() mod              { return func(_ *Options, s *Spec) { s.Large = true } }
func lasting(d time.Duration) mod { return func(_ *Options, s *Spec) { s.Duration = d } }

// footprint gives every function the same memory, and lets more of an azure
// sample's utilization be warm work, since less of it is swapping.
func footprint(b Bytes) mod { return func(_ *Options, s *Spec) { s.Footprint, s.WarmShare = b, 0.75 } }

// all joins modifications.
func all(mods ...mod) mod {
	return func(o *Options, s *Spec) {
		for _, m := range mods {
			m(o, s)
		}
	}
}

// runCells makes the needed cells' runs on seeds from 1 on.
func runCells(ctx context.Context, needed []*cell, seeds, parallel int, progress Progress) error {
	var tasks []Task
	for s := range seeds {
		for _, c := range needed {
			t := c.Task
			t.Seed = uint64(s + 1)
			tasks = append(tasks, t)
		}
	}
	results, err := RunAll(ctx, tasks, parallel, progress)
	if err != nil {
		return err
	}
	for i, c := range needed {
		for s := range seeds {
			c.bySeed = append(c.bySeed, results[s*len(needed)+i])
		}
	}
	return nil
}

// union lists cells without repetition.
func union(list [][]*cell) (out []*cell) {
	seen := make(map[*cell]bool)
	for _, cs := range list {
		for _, c := range cs {
			if !seen[c] {
				seen[c] = true
				out = append(out, c)
			}
		}
	}
	return out
}

// begins reports whether a name begins with one of only, or only is empty.
func begins(name string, only []string) bool {
	for _, p := range only {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return len(only) == 0
}
