package gpucheck

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// sample is about how long one measurement of a workload lasts: long against
// the clock's grain and a launch, short enough to interleave many.
const sample = 100 * time.Millisecond

// workload is one order of a worker, with the number that scales it last.
type workload struct {
	name  string
	order string // with the scale as its argument
}

// bench is one pair of programs that do the same, without the shim and under
// it.
type bench struct {
	name        string
	bare        *program
	shim        *guest
	workloads   []workload
	description string
}

// checkOverhead runs each workload in turns without the shim and under it, and
// compares neighbours in time, so that the card's clocks and the machine's
// load weigh on both alike.
func checkOverhead(ctx context.Context, b *bed, r *Result) error {
	if err := b.take(4 * (contextIf(b) + b.fftBytes())); err != nil {
		return err
	}
	t := r.table(fmt.Sprintf("Medians of %d interleaved runs each", b.s.Rounds),
		"program", "workload", "without ms", "under the shim ms", "overhead", "quartiles")
	own, err := b.ownBench(ctx)
	if err != nil {
		return err
	}
	benches := []*bench{own}
	if f, err := b.frameworkBench(ctx); err != nil {
		r.note("Not measured on a framework: %v.", err)
	} else {
		benches = append(benches, f)
	}
	for _, x := range benches {
		r.note("%s", x.description)
		for _, w := range x.workloads {
			if err := b.compare(ctx, r, t, x, w); err != nil {
				return fmt.Errorf("%s, %s: %w", x.name, w.name, err)
			}
		}
	}
	return nil
}

func (b *bed) fftBytes() int64 {
	if b.fake {
		return 1 << 20
	}
	return min(256<<20, b.free/40)
}

// rows of the matrices that are multiplied.
func (b *bed) rows() int {
	if b.fake {
		return 64
	}
	return 2048
}

func (b *bed) workloads() []workload {
	return []workload{
		{"FFT", fmt.Sprintf("fft %d", b.fftBytes())},
		{"GEMM", fmt.Sprintf("gemm %d", b.rows())},
		{"loop of small kernels", "loop"},
	}
}

// ownBench has our own kernels, by the driver alone.
func (b *bed) ownBench(ctx context.Context) (*bench, error) {
	bare, err := b.plain(ctx)
	if err != nil {
		return nil, err
	}
	under, err := b.worker(ctx)
	if err != nil {
		return nil, err
	}
	return &bench{
		name: "driver", bare: bare, shim: under, workloads: b.workloads(),
		description: "The programs called driver have kernels of their own: FFT stands for passes over all of the data, as a stage of one makes.",
	}, nil
}

// frameworkBench has a real FFT and GEMM, of the first framework that is here.
func (b *bed) frameworkBench(ctx context.Context) (*bench, error) {
	if !b.frameworks() {
		return nil, skip("frameworks need more of a driver than the fake one has")
	}
	for _, f := range []framework{torchDefault(), cupyDefault()} {
		if !b.importable(ctx, f.module) {
			continue
		}
		return b.startPair(ctx, f)
	}
	return nil, skip("neither PyTorch nor CuPy is here")
}

// startPair starts a framework's worker without the shim and under it, both at
// once: most of their time goes into loading libraries.
func (b *bed) startPair(ctx context.Context, f framework) (*bench, error) {
	var version struct {
		Version string `json:"version"`
		CUDA    string `json:"cuda"`
	}
	x := &bench{name: f.module, workloads: b.workloads()}
	var g errgroup.Group
	g.Go(func() (err error) {
		x.bare, err = b.start(ctx, f.name, b.python(f.script), b.env(f.env...), &version)
		return err
	})
	g.Go(func() (err error) {
		x.shim, err = b.guest(ctx, f.name, b.python(f.script), nil, f.env...)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	x.description = fmt.Sprintf("%s is %s for CUDA %s: its FFT, its product of matrices of 32-bit floats, its addition to a small array.",
		f.module, version.Version, version.CUDA)
	return x, nil
}

// compare measures one workload in turns, first the one, then the other
// leading.
func (b *bed) compare(ctx context.Context, r *Result, t *Table, x *bench, w workload) error {
	n, err := scale(ctx, x.bare, w, b.sample())
	if err != nil {
		return err
	}
	if _, err := x.shim.timed(ctx, w, n); err != nil { // as warm as the other
		return err
	}
	var without, under, ratio []float64
	for i := range b.s.Rounds {
		order := []*program{x.bare, x.shim.program}
		if i%2 == 1 {
			order[0], order[1] = order[1], order[0]
		}
		var took [2]time.Duration
		for j, p := range order {
			if took[j], err = p.timed(ctx, w, n); err != nil {
				return err
			}
		}
		if i%2 == 1 {
			took[0], took[1] = took[1], took[0]
		}
		without, under = append(without, ms(took[0])), append(under, ms(took[1]))
		ratio = append(ratio, share(float64(took[1]), float64(took[0]))-1)
	}
	over, goal := median(ratio), b.s.Goals.Overhead
	t.row(x.name, w.name, fmt.Sprintf("%.3f", median(without)), fmt.Sprintf("%.3f", median(under)),
		percent(over), fmt.Sprintf("%s to %s", percent(quantile(0.25, ratio)), percent(quantile(0.75, ratio))))
	r.judge(fmt.Sprintf("overhead on %s of %s", w.name, x.name), over, "share", "at most "+percent(goal), over <= goal)
	return nil
}

func (b *bed) sample() time.Duration {
	if b.fake {
		return time.Millisecond
	}
	return sample
}

func (p *program) timed(ctx context.Context, w workload, n int) (time.Duration, error) {
	var a timeAnswer
	err := p.do(ctx, &a, "%s %d", w.order, n)
	return time.Duration(a.NS), err
}

// scale finds how often a workload fits into a sample.
func scale(ctx context.Context, p *program, w workload, want time.Duration) (int, error) {
	if _, err := p.timed(ctx, w, 1); err != nil { // loads what there is to load
		return 0, err
	}
	n := 1
	for {
		took, err := p.timed(ctx, w, n)
		if err != nil {
			return 0, err
		}
		if took >= want/4 || n >= 1<<20 {
			return max(int(float64(n)*float64(want)/float64(max(took, 1))), 1), nil
		}
		n *= 4
	}
}
