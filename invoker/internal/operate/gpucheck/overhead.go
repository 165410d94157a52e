package gpucheck

import (
	"fmt"
	"slices"
	"time"
)

// workload is an order of a worker. The order's last argument scales it.
type workload struct{ name, order string }

// pairs is the number of pairs of processes that are compared. Without the shim, the
// launches of two processes of one program were seen to differ by a seventh.
const pairs = 3

// bench has programs with the same work. The second one of each pair is under the shim.
type bench struct {
	name  string
	pairs [pairs][2]*program
}

// newBench starts the programs of all pairs on one core.
func newBench(name string, run func(shim bool) *program) *bench {
	b := &bench{name: name}
	var all [2 * pairs]*program
	parallel(len(all), len(all), func(i int) { all[i] = run(i%2 == 1) })
	onOneCore(all[:]...)
	for i, p := range all {
		b.pairs[i/2][i%2] = p
	}
	return b
}

// checkOverhead runs each workload in turns without and under the shim, so that the card's
// clocks and the machine's load weigh on both alike, and compares the medians.
func checkOverhead(t *trial) {
	fft := pick(t.fake(), 1<<20, min(256<<20, t.device.Free/40))
	t.take(4 * pairs * (t.contextBytes() + fft))
	table := t.table(fmt.Sprintf("Medians of %d interleaved runs each, of %d pairs of processes in turns on one core", t.s.Rounds, pairs),
		"program", "workload", "without ms", "under the shim ms", "overhead", "95% interval")
	t.remark("The programs called driver have kernels of their own. Their FFT is passes over all data, as each stage of an FFT makes one.")
	benches := []*bench{newBench("driver", func(shim bool) *program { return t.worker(shim) })}
	if err := catch(func() { benches = append(benches, t.frameworkBench()) }); err != nil {
		t.remark("Not measured on a framework: %v.", err)
	}
	for _, b := range benches {
		for _, w := range []workload{
			{"FFT", fmt.Sprintf("fft %d", fft)},
			{"GEMM", fmt.Sprintf("gemm %d", pick(t.fake(), 64, 2048))},
			{"loop of small kernels", "loop"},
		} {
			require(attempt(b.name+", "+w.name, func() { t.compare(table, b, w) }))
		}
	}
}

// frameworkBench has the FFT and GEMM of the first framework that is here.
func (t *trial) frameworkBench() *bench {
	here := slices.DeleteFunc(t.installed(), func(f framework) bool { return f.module == "jax" })
	if len(here) == 0 {
		fail("neither PyTorch nor CuPy is here, or the driver is fake")
	}
	b := newBench(here[0].module, func(shim bool) *program { return t.framework(here[0], shim) })
	hello := b.pairs[0][0].hello
	t.remark("%s is %s for CUDA %s: its FFT, its product of matrices of 32-bit floats, its addition to a small array.",
		b.name, hello.Version, hello.CUDA)
	return b
}

// compare measures one workload. The programs take turns in going first.
func (t *trial) compare(table *Table, b *bench, w workload) {
	// A run is long against a launch, and short enough to interleave many.
	n := scale(b.pairs[0][0], w, pick(t.fake(), time.Millisecond, 100*time.Millisecond))
	for _, pair := range b.pairs {
		for _, p := range pair {
			p.ask("%s %d", w.order, n) // warms them up
		}
	}
	var without, under []float64
	for i := range t.s.Rounds {
		var took [2]float64
		for j := range took {
			which := (i/pairs + j) % 2
			took[which] = ms(b.pairs[i%pairs][which].ask("%s %d", w.order, n).NS)
		}
		without, under = append(without, took[0]), append(under, took[1])
	}
	over, goal := overhead(without, under), t.s.Goals.Overhead
	least, most := interval(without, under)
	table.row(b.name, w.name, fmt.Sprintf("%.3f", median(without)), fmt.Sprintf("%.3f", median(under)),
		percent(over), fmt.Sprintf("%s to %s", percent(least), percent(most)))
	t.judge(fmt.Sprintf("overhead on %s of %s", w.name, b.name), over, "share", "at most "+percent(goal), over <= goal)
}

// scale returns how often a workload fits into the time.
func scale(p *program, w workload, want time.Duration) int {
	p.ask("%s 1", w.order) // loads the kernels
	for n := 1; ; n *= 4 {
		took := p.ask("%s %d", w.order, n).NS
		if took >= want/4 || n >= 1<<20 {
			return max(int(float64(n)*float64(want)/float64(max(took, 1))), 1)
		}
	}
}
