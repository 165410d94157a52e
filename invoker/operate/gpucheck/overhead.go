package gpucheck

import (
	"fmt"
	"time"
)

// workload is an order of a worker whose last argument scales it.
type workload struct{ name, order string }

// bench is a pair of programs that do the same, without the shim and under it.
type bench struct {
	name     string
	programs [2]*program
}

// checkOverhead runs each workload alternately without the shim and under it, and
// compares neighbours in time, so that the card's clocks and the machine's load
// weigh on both alike.
func checkOverhead(t *trial) {
	fft := pick(t.fixture, min(256<<20, t.device.Free/40), 1<<20)
	t.take(4 * (t.contextBytes() + fft))
	table := t.table(fmt.Sprintf("Medians of %d interleaved runs each", t.s.Rounds),
		"program", "workload", "without ms", "under the shim ms", "overhead", "quartiles")
	t.remark("The programs called driver have kernels of their own: FFT stands for passes over all of the data, as a stage of one makes.")
	benches := []bench{{"driver", [2]*program{t.worker(false), t.worker(true)}}}
	if err := catch(func() { benches = append(benches, t.frameworkBench()) }); err != nil {
		t.remark("Not measured on a framework: %v.", err)
	}
	for _, b := range benches {
		for _, w := range []workload{
			{"FFT", fmt.Sprintf("fft %d", fft)},
			{"GEMM", fmt.Sprintf("gemm %d", pick(t.fixture, 2048, 64))},
			{"loop of small kernels", "loop"},
		} {
			check(attempt(b.name+", "+w.name, func() { t.compare(table, b, w) }))
		}
	}
}

// frameworkBench has a real FFT and GEMM, of the first framework that is here. Both
// programs start at once: most of their time goes into loading libraries.
func (t *trial) frameworkBench() (b bench) {
	for _, f := range t.installed() {
		if f.module == "jax" {
			continue
		}
		b.name = f.module
		parallel(2, 2, func(i int) { b.programs[i] = t.start(f.name, t.python(f.script), i == 1, f.env...) })
		t.remark("%s is %s for CUDA %s: its FFT, its product of matrices of 32-bit floats, its addition to a small array.",
			f.module, b.programs[0].hello.Version, b.programs[0].hello.CUDA)
		return b
	}
	skip("neither PyTorch nor CuPy is here, or the driver is fake")
	return b
}

// compare measures one workload, first the one and then the other program leading.
func (t *trial) compare(table *Table, b bench, w workload) {
	// Long against the clock's grain and a launch, short enough to interleave many.
	n := scale(b.programs[0], w, pick(t.fixture, 100*time.Millisecond, time.Millisecond))
	b.programs[1].timed("%s %d", w.order, n) // as warm as the other
	var without, under, ratio []float64
	for i := range t.s.Rounds {
		var took [2]float64
		for j := range took {
			which := (i + j) % 2
			took[which] = ms(b.programs[which].timed("%s %d", w.order, n))
		}
		without, under = append(without, took[0]), append(under, took[1])
		ratio = append(ratio, share(took[1], took[0])-1)
	}
	over, goal := median(ratio), t.s.Goals.Overhead
	table.row(b.name, w.name, fmt.Sprintf("%.3f", median(without)), fmt.Sprintf("%.3f", median(under)),
		percent(over), fmt.Sprintf("%s to %s", percent(quantile(0.25, ratio)), percent(quantile(0.75, ratio))))
	t.judge(fmt.Sprintf("overhead on %s of %s", w.name, b.name), over, "share", "at most "+percent(goal), over <= goal)
}

// scale finds how often a workload fits into the time wanted.
func scale(p *program, w workload, want time.Duration) int {
	p.timed("%s 1", w.order) // loads what there is to load
	for n := 1; ; n *= 4 {
		took := p.timed("%s %d", w.order, n)
		if took >= want/4 || n >= 1<<20 {
			return max(int(float64(n)*float64(want)/float64(max(took, 1))), 1)
		}
	}
}
