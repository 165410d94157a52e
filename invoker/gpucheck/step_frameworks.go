package gpucheck

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// checkFrameworks swaps an array of each framework and allocator that is
// here, with and without a graph recorded before, and verifies its words.
func checkFrameworks(ctx context.Context, b *bed, r *Result) error {
	if !b.frameworks() {
		return skip("frameworks need more of a driver than the fake one has")
	}
	var here []framework
	known := map[string]bool{}
	for _, f := range frameworks() {
		if _, asked := known[f.module]; !asked {
			known[f.module] = b.importable(ctx, f.module)
		}
		if known[f.module] {
			here = append(here, f)
		}
	}
	if len(here) == 0 {
		return skip("%s imports none of PyTorch, CuPy and JAX", b.s.Python)
	}
	bytes, err := b.fit(r, min(1<<30, b.free/20, b.s.Swap))
	if err != nil {
		return err
	}
	// A comparison needs as much again in the worst case, and libraries bring
	// their own.
	if err := b.take(int64(len(here)) * 2 * (bytes + contextIf(b))); err != nil {
		return err
	}
	return b.swapAll(ctx, r, here, bytes)
}

// swapAll starts all workers at once, since most of their time goes into
// loading libraries, and then swaps one after the other.
func (b *bed) swapAll(ctx context.Context, r *Result, here []framework, bytes int64) error {
	guests, failures := make([]*guest, len(here)), make([]error, len(here))
	var g errgroup.Group
	g.SetLimit(max(1, min(runtime.NumCPU()/2, len(here))))
	for i, f := range here {
		g.Go(func() error {
			guests[i], failures[i] = b.guest(ctx, f.name, b.python(f.script), nil, f.env...)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	t := r.table(fmt.Sprintf("An array of %s in each", size(bytes)),
		"framework", "counted", "out", "GB/s", "in", "GB/s", "left by NVML", "wrong", "with a graph")
	var errs []error
	for i, f := range here {
		err := failures[i]
		if err == nil {
			err = b.swapOne(ctx, r, t, f, guests[i], bytes)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
		if guests[i] != nil {
			guests[i].leave()
		}
	}
	return errors.Join(errs...)
}

func (b *bed) swapOne(ctx context.Context, r *Result, t *Table, f framework, g *guest, bytes int64) error {
	block, err := g.filled(ctx, bytes, 5)
	if err != nil {
		return err
	}
	if err := g.do(ctx, nil, "work %d 3", block); err != nil {
		return err
	}
	counted, err := g.counted(ctx)
	if err != nil {
		return err
	}
	m, err := b.cycle(ctx, g, block)
	if err != nil {
		return err
	}
	graph := "not tried"
	if f.graphs {
		wrong, err := b.graph(ctx, g, block)
		if err != nil {
			return fmt.Errorf("with a graph: %w", err)
		}
		graph = fmt.Sprintf("%d wrong", wrong)
		m.wrong += wrong
	}
	m.row(t, f, counted, graph)
	r.must("wrong words with "+f.name, float64(m.wrong), "", "0", m.wrong == 0)
	r.must("of the array counted by the shim with "+f.name, share(float64(counted), float64(bytes)), "share", "at least 100%", counted >= bytes)
	if f.movable {
		ok := m.out >= bytes && m.in >= bytes
		r.must("of the array swapped with "+f.name, share(float64(min(m.out, m.in)), float64(bytes)), "share", "at least 100%", ok)
	}
	return nil
}

// counted is what the shim knows that a program holds.
func (g *guest) counted(ctx context.Context) (int64, error) {
	told, err := g.box.Report(ctx)
	var sum int64
	for _, u := range told {
		sum += u.Allocated
	}
	return sum, err
}

// cycled is what came of moving a program's memory out and in.
type cycled struct {
	out, in         int64
	outRate, inRate float64
	left            string
	wrong           int64
}

func (m cycled) row(t *Table, f framework, counted int64, graph string) {
	t.row(f.name, size(counted), size(m.out), fmt.Sprintf("%.1f", m.outRate), size(m.in), fmt.Sprintf("%.1f", m.inRate),
		m.left, fmt.Sprint(m.wrong), graph)
}

// cycle moves out and in twice, the first time for the host's pages, and
// verifies.
func (b *bed) cycle(ctx context.Context, g *guest, block int) (cycled, error) {
	var m cycled
	for range 2 {
		full, told := b.mon.used(ctx)
		out, err := b.evict(ctx, g.box)
		if err != nil {
			return m, err
		}
		empty, _ := b.mon.used(ctx)
		in, err := b.prefetch(ctx, g.box)
		if err != nil {
			return m, err
		}
		m.left = "not told"
		if told {
			m.left = size(full - empty)
		}
		m.out, m.in = out.Moved, in.Moved
		m.outRate, m.inRate = rate(out.Moved, out.Took), rate(in.Moved, in.Took)
	}
	c, err := g.wrong(ctx, block)
	m.wrong = c.Mismatches
	return m, err
}

// graph records a pass, swaps, replays the graph on what was swapped, swaps
// again and verifies: the graph holds addresses, which must stay good.
func (b *bed) graph(ctx context.Context, g *guest, block int) (int64, error) {
	if err := g.do(ctx, nil, "graph %d", block); err != nil {
		return 0, err
	}
	if _, err := b.evict(ctx, g.box); err != nil {
		return 0, err
	}
	g.box.Running(true)
	err := g.do(ctx, nil, "replay %d 3", block) // faults in
	g.box.Running(false)
	if err != nil {
		return 0, err
	}
	if _, err := b.evict(ctx, g.box); err != nil {
		return 0, err
	}
	if _, err := b.prefetch(ctx, g.box); err != nil {
		return 0, err
	}
	if err := g.do(ctx, nil, "replay %d 2", block); err != nil {
		return 0, err
	}
	c, err := g.wrong(ctx, block)
	return c.Mismatches, err
}
