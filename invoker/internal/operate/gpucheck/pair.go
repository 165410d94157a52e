package gpucheck

import (
	"fmt"
	"os"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/mps"
)

// checkPair runs two processes on one device (D=2). Each runs while the other's memory is
// moved out and in, then both run at once. It returns the processes and the size of their
// blocks.
func checkPair(t *trial) (guests [2]*program, bytes int64) {
	bytes = t.fit(2*min(t.s.Set, t.device.Free/8)) / 2
	t.take(2 * (bytes + t.contextBytes()))
	for i := range guests {
		guests[i] = t.filled(bytes, 11+i)
	}
	passes := guests[0].calibrate(t.s.RunTime)
	rounds, orders := max(min(t.s.Rounds, 5), 2), 0
	run := func(i int) float64 { return ms(guests[i].run(passes)) }
	alone := func(i int) []float64 { return []float64{run(i)} }
	beside := func(i int) []float64 { // the other's memory moves
		var took float64
		together(func() { took = run(i) }, func() {
			t.evict(guests[1-i])
			t.prefetch(guests[1-i])
			orders += 2
		})
		return []float64{took}
	}
	both := func(int) []float64 {
		took := make([]float64, 2)
		together(func() { took[0] = run(0) }, func() { took[1] = run(1) })
		return took
	}
	table := t.table(fmt.Sprintf("Two processes of %s, %d passes a run", size(bytes), passes), "run of", "meanwhile", "median ms", "slowest ms")
	var wrong int64
	for _, phase := range []struct {
		of, beside string
		run        func(int) []float64
		first      int
	}{
		{"first", "nothing", alone, 0},
		{"second", "nothing", alone, 1},
		{"first", "second goes and comes", beside, 0},
		{"second", "first goes and comes", beside, 1},
		{"both", "each other", both, 0},
	} {
		var took []float64
		for range rounds {
			took = append(took, phase.run(phase.first)...)
		}
		table.row(phase.of, phase.beside, fmt.Sprintf("%.2f", median(took)), fmt.Sprintf("%.2f", slices.Max(took)))
		wrong += wrongWords(guests[:]...)
	}
	t.none("wrong words in both, after all", wrong)
	t.all("orders carried out beside a run", orders, 4*rounds)
	return guests, bytes
}

// checkMPS has two processes share the device by MPS, as checkPair does without MPS, and
// then ask for more than their limit. It needs a running daemon. The check does not start,
// stop or change MPS, because other programs may use it.
func checkMPS(t *trial) {
	switch {
	case t.fake():
		t.remark("Simulated: the fake driver has no MPS, so its two processes share it as without MPS.")
	case !mps.Runs(os.DirFS("/")):
		skip("no MPS daemon: start one (nvidia-cuda-mps-control -d) to have two of its clients checked")
	}
	guests, bytes := checkPair(t)
	guests[0].container.Limit(bytes+bytes/2, 0)
	value(guests[0].container.Report(t.ctx)) // it has its limit by then
	err := catch(func() { guests[0].fill(bytes, 21) })
	require(t.ctx.Err())
	t.must("blocks given beyond the limit of one and a half", pick(err == nil, 1.0, 0), "0", err != nil)
	t.none("wrong words in the other, after that", wrongWords(guests[1]))
}
