package gpucheck

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// guest is a program under the shim, in a container of its own.
type guest struct {
	*program
	box *shimctl.Container
}

// guest starts a program under the shim and waits until the shim has
// connected.
func (b *bed) guest(ctx context.Context, name string, args []string, hello any, env ...string) (*guest, error) {
	c, err := b.box()
	if err != nil {
		return nil, err
	}
	p, err := b.start(ctx, name, args, b.under(c, env...), hello)
	if err != nil {
		return nil, err
	}
	if err := connected(ctx, c); err != nil {
		return nil, fmt.Errorf("%s: %w%s", name, err, p.errors.said())
	}
	return &guest{p, c}, nil
}

// worker starts worker.c under the shim.
func (b *bed) worker(ctx context.Context, env ...string) (*guest, error) {
	return b.guest(ctx, "worker", []string{b.progs.worker}, nil, env...)
}

// plain starts worker.c without the shim.
func (b *bed) plain(ctx context.Context) (*program, error) {
	return b.start(ctx, "plain worker", []string{b.progs.worker}, b.env(), nil)
}

// connected waits for the shim: it connects after the driver's start, on a
// thread of its own.
func connected(ctx context.Context, c *shimctl.Container) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for c.Processes() == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the shim has not connected: %w", ctx.Err())
		}
	}
	return nil
}

// evict and prefetch carry out an order as the invoker would give it. Anything
// but a full success is an error.
func (b *bed) evict(ctx context.Context, c *shimctl.Container) (shimctl.Done, error) {
	d, err := c.Evict(ctx, b.nextEpoch())
	return d, done("evict", d, err)
}

func (b *bed) prefetch(ctx context.Context, c *shimctl.Container) (shimctl.Done, error) {
	d, err := c.Prefetch(ctx, b.nextEpoch(), 0)
	return d, done("prefetch", d, err)
}

func done(what string, d shimctl.Done, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case d.Status != shimctl.OK:
		return fmt.Errorf("%s: %s after %s, driver's answer %d", what, d.Status, size(d.Moved), d.Code)
	case d.Processes == 0:
		return fmt.Errorf("%s: no process answered", what)
	}
	return nil
}

// The answers of worker.c and its likes.
type (
	blockAnswer struct {
		Block int `json:"block"`
	}
	timeAnswer struct {
		NS int64 `json:"ns"`
	}
	checkAnswer struct {
		Mismatches int64 `json:"mismatches"`
		Words      int64 `json:"words"`
		NS         int64 `json:"ns"`
	}
	memoryAnswer struct {
		Free  int64 `json:"free"`
		Total int64 `json:"total"`
	}
	copyAnswer struct {
		In  []int64 `json:"in"`
		Out []int64 `json:"out"`
	}
	placeAnswer struct {
		Place int `json:"place"`
	}
)

// filled makes a block of known contents.
func (g *guest) filled(ctx context.Context, bytes int64, seed int) (block int, err error) {
	var a blockAnswer
	if err := g.do(ctx, &a, "alloc %d", bytes); err != nil {
		return 0, err
	}
	return a.Block, g.do(ctx, nil, "fill %d %d", a.Block, seed)
}

// run has passes over a block, told to the shim as the invoker tells of a run.
func (g *guest) run(ctx context.Context, block, passes int) (time.Duration, error) {
	var a timeAnswer
	g.box.Running(true)
	defer g.box.Running(false)
	err := g.do(ctx, &a, "work %d %d", block, passes)
	return time.Duration(a.NS), err
}

// wrong counts the words that are not what they must be.
func (g *guest) wrong(ctx context.Context, block int) (checkAnswer, error) {
	var a checkAnswer
	g.box.Running(true)
	defer g.box.Running(false)
	err := g.do(ctx, &a, "check %d", block)
	return a, err
}

// calibrate finds how many passes take about as long as wanted.
func (g *guest) calibrate(ctx context.Context, block int, want time.Duration) (int, error) {
	var best time.Duration
	for range 3 {
		took, err := g.run(ctx, block, 4)
		if err != nil {
			return 0, err
		}
		if best == 0 || took < best {
			best = took
		}
	}
	return int(min(max(4*want/max(best, 1), 1), 100_000)), nil
}

// fill is how full the device is, by two witnesses.
type fill struct {
	driver int64 // by cuMemGetInfo
	nvml   int64 // by NVML, negative where it is not told
}

func (b *bed) fill(ctx context.Context, p *program) (fill, error) {
	var m memoryAnswer
	if err := p.do(ctx, &m, "info"); err != nil {
		return fill{}, err
	}
	f := fill{driver: m.Total - m.Free, nvml: -1}
	if used, told := b.mon.used(ctx); told {
		f.nvml = used
	}
	return f, nil
}

func (f fill) cells() []string {
	nvml := "not told"
	if f.nvml >= 0 {
		nvml = size(f.nvml)
	}
	return []string{size(f.driver), nvml}
}
