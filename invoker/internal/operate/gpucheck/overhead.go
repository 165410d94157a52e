package gpucheck

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// pairs is the number of pairs of processes that are compared. Without the shim, the
// launches of two processes of one program were seen to differ by a seventh.
const pairs = 3

// checkOverhead runs each workload in turns without and under the shim, so that the card's
// clocks and the machine's load weigh on both alike, and compares the medians. The programs
// are worker.c, with kernels of its own, and the worker of the first framework that is here.
func checkOverhead(t *trial) {
	fft := pick(t.fake(), 1<<20, min(256<<20, t.device.Free/40))
	t.take(4 * pairs * (t.contextBytes() + fft))
	table := t.table(fmt.Sprintf("Medians of %d interleaved runs each, of %d pairs of processes in turns on one core", t.s.Rounds, pairs),
		"program", "workload", "without ms", "under the shim ms", "overhead", "95% interval")
	t.remark("The programs called driver have kernels of their own. Their FFT is passes over all data, as each stage of an FFT makes one.")
	benches := []holder{{name: "driver"}}
	here := slices.IndexFunc(frameworks, func(h holder) bool { return h.module != "jax" && t.imports(h.module) })
	if here >= 0 {
		benches = append(benches, frameworks[here])
	} else {
		t.remark("Not measured on a framework: neither PyTorch nor CuPy is here, or the driver is fake.")
	}
	for _, h := range benches {
		var programs [2 * pairs]*program // the second one of each pair is under the shim
		if err := catch(func() {
			parallel(len(programs), len(programs), func(i int) { programs[i] = t.hold(h, i%2 == 1) })
		}); err != nil {
			fail("%s: %w", h.name, err)
		}
		onOneCore(programs[:]...)
		for _, w := range [][2]string{
			{"FFT", fmt.Sprintf("fft %d", fft)},
			{"GEMM", fmt.Sprintf("gemm %d", pick(t.fake(), 64, 2048))},
			{"loop of small kernels", "loop"},
		} {
			t.compare(table, strings.TrimSpace(h.name+" "+programs[0].hello.Version), programs[:], w[0], w[1])
		}
	}
}

// compare measures one workload. The last argument of its order scales it. The programs take
// turns in going first.
func (t *trial) compare(table *Table, name string, programs []*program, workload, order string) {
	// A run is long against a launch, and short enough to interleave many.
	n := scale(programs[0], order, pick(t.fake(), time.Millisecond, 100*time.Millisecond))
	for _, p := range programs {
		p.ask("%s %d", order, n) // warms it up
	}
	var took [2][]float64 // without, and under the shim
	for i := range t.s.Rounds {
		for j := range took {
			which := (i/pairs + j) % 2
			took[which] = append(took[which], ms(programs[i%pairs*2+which].ask("%s %d", order, n).NS))
		}
	}
	over, goal := overhead(took[0], took[1]), t.s.Goals.Overhead
	least, most := interval(took[0], took[1])
	table.row(name, workload, fmt.Sprintf("%.3f", median(took[0])), fmt.Sprintf("%.3f", median(took[1])),
		percent(over), fmt.Sprintf("%s to %s", percent(least), percent(most)))
	t.say("The shim adds to %s, %s: %s (%s to %s).", name, workload, percent(over), percent(least), percent(most))
	t.judge(fmt.Sprintf("overhead on %s of %s", workload, name), over, "share", "at most "+percent(goal), over <= goal)
}

// scale returns how often a workload fits into the time.
func scale(p *program, order string, want time.Duration) int {
	p.ask("%s 1", order) // loads the kernels
	for n := 1; ; n *= 4 {
		took := p.ask("%s %d", order, n).NS
		if took >= want/4 || n >= 1<<20 {
			return max(int(float64(n)*float64(want)/float64(max(took, 1))), 1)
		}
	}
}
