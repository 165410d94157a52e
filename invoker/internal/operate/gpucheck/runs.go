package gpucheck

import (
	"fmt"
	"os"
	"slices"
	"time"

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
	rounds, wrong := max(min(t.s.Rounds, 5), 2), int64(0)
	var medians []float64
	table := t.table(fmt.Sprintf("Two processes of %s, %d passes a run", size(bytes), passes), "run of", "meanwhile", "median ms", "slowest ms")
	for _, phase := range []struct {
		of, meanwhile string
		runs, moves   []*program
	}{
		{"first", "nothing", guests[:1], nil},
		{"second", "nothing", guests[1:], nil},
		{"first", "second goes and comes", guests[:1], guests[1:]},
		{"second", "first goes and comes", guests[1:], guests[:1]},
		{"both", "each other", guests[:], nil},
	} {
		took := make([]float64, rounds*len(phase.runs))
		for round := range rounds {
			n := len(phase.runs)
			parallel(n+len(phase.moves), 2, func(i int) {
				if i < n {
					took[round*n+i] = ms(phase.runs[i].run(passes))
				} else {
					t.moved(phase.moves[i-n], bytes)
				}
			})
		}
		table.row(phase.of, phase.meanwhile, fmt.Sprintf("%.2f", median(took)), fmt.Sprintf("%.2f", slices.Max(took)))
		medians = append(medians, median(took))
		wrong += wrongWords(guests[:]...)
	}
	t.none("wrong words in both, after all", wrong)
	t.say("A run takes %.1f ms alone, %.1f ms while the other's memory goes and comes, %.1f ms beside the other's run.",
		medians[0], medians[2], medians[4])
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
	t.must("blocks given beyond the limit of one and a half", pick(err == nil, 1.0, 0), "", "0", err != nil)
	t.none("wrong words in the other, after that", wrongWords(guests[1]))
}

// mode is one way of bringing memory in, with its measurements.
type mode struct {
	name     string
	fits     int       // number of sets that fit the device
	faulting bool      // sets come in by faults
	whole    []float64 // ms from dispatch to the end
	runs     []float64 // ms, without the wait for memory
	out, in  int64
	took     time.Duration
}

// checkPrefetch compares three ways: containers are never swapped, their memory is brought
// in ahead of their run, or the run faults it in.
//
// Paper, section 5.3: sixteen copies of FFT with 1.5 GB each on a card of 16 GB. Here the
// containers may use two thirds of the memory that they need together, so that the card is
// never filled.
func checkPrefetch(t *trial) {
	n := int64(t.s.Containers)
	each := min(t.s.Set, t.device.Free/10*7/n-t.contextBytes()) // seven tenths of the free memory
	set := t.fit(n*each) / n &^ (1<<16 - 1)
	if set < 1<<20 {
		skip("%d containers find only %s each on a card with %s free", n, size(max(set, 0)), size(t.device.Free))
	}
	t.take(n * (set + t.contextBytes()))
	all := t.s.Containers
	tenants := make([]*program, all)
	parallel(all, 4, func(i int) { tenants[i] = t.filled(set, 100+i) })
	passes := tenants[0].calibrate(t.s.RunTime)
	some := max(2*all/3, 2)
	never, ahead := &mode{name: "never swapped", fits: all}, &mode{name: "evicted, prefetched ahead", fits: some}
	faults := &mode{name: "evicted, faulted in", fits: some, faulting: true}
	longer := func(m *mode) float64 { return share(median(m.whole), median(never.whole)) - 1 }
	table := t.table(fmt.Sprintf("%d containers of %s one after the other, %d passes a run, %s of device memory",
		all, size(set), passes, size(int64(some)*set)),
		"memory", "median ms", "90% ms", "run alone ms", "against never swapped", "moved out", "moved in", "all runs s")
	for _, m := range []*mode{never, ahead, faults} {
		t.play(m, tenants, passes)
		table.row(m.name, fmt.Sprintf("%.1f", median(m.whole)), fmt.Sprintf("%.1f", quantile(0.9, m.whole)),
			fmt.Sprintf("%.1f", median(m.runs)), fmt.Sprintf("%+.1f%%", 100*longer(m)),
			size(m.out), size(m.in), fmt.Sprintf("%.2f", m.took.Seconds()))
	}
	t.none("wrong words in all containers, after all", wrongWords(tenants...))
	t.must("MiB moved out for others while they ran one after the other", float64(ahead.out>>20), "", "more than 0",
		ahead.out > 0 && faults.out > 0 && ahead.in > 0)
	t.none("MiB moved out while never swapped", never.out>>20)
	goal, v := t.s.Goals.Prefetch, longer(ahead)
	t.judge("a run after its prefetch takes longer than one never swapped by", v, "share", "at most "+percent(goal), v <= goal)
	t.say("A run takes longer than one never swapped by %s after a prefetch, and by %s if it faults its memory in (the paper has 40%% on a V100).",
		percent(v), percent(longer(faults)))
	t.remark("A run is counted from dispatch to its end.")
}

// play runs the containers one after the other, three times. During each run it brings in
// the next container's memory, as the invoker does. This is the worst order if the least
// recently used memory leaves first, because it is needed soonest. The first time, in which
// every container comes in for the first time, is not measured.
func (t *trial) play(m *mode, tenants []*program, passes int) {
	n := len(tenants)
	for _, x := range tenants {
		if m.fits < n {
			t.evict(x)
		} else {
			t.prefetch(x)
		}
	}
	bringIn := func(i int) { // for the i-th run
		if m.fits >= n {
			return
		}
		m.out += t.evict(tenants[(i+n-m.fits)%n]).Moved
		if !m.faulting {
			m.in += t.prefetch(tenants[i%n]).Moved
		}
	}
	bringIn(0)
	var began time.Time
	for i := range 3 * n {
		dispatched := time.Now()
		if i == n {
			m.whole, m.runs, m.out, m.in, began = nil, nil, 0, 0, dispatched
		}
		parallel(2, 2, func(which int) {
			if which == 1 {
				bringIn(i + 1)
				return
			}
			took := tenants[i%n].run(passes)
			m.whole, m.runs = append(m.whole, ms(time.Since(dispatched))), append(m.runs, ms(took))
		})
	}
	m.took = time.Since(began)
}
