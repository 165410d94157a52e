package gpucheck

import (
	"fmt"
	"time"
)

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
	set, all := t.setSize(), t.s.Containers
	tenants := make([]*program, all)
	parallel(all, 4, func(i int) { tenants[i] = t.filled(set, 100+i) })
	passes := tenants[0].calibrate(t.s.RunTime)
	some := max(2*all/3, 2)
	never := &mode{name: "never swapped", fits: all}
	ahead := &mode{name: "evicted, prefetched ahead", fits: some}
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
	t.must("MiB moved out for others while they ran one after the other", float64(ahead.out>>20), "more than 0",
		ahead.out > 0 && faults.out > 0 && ahead.in > 0)
	t.none("MiB moved out while never swapped", never.out>>20)
	goal, v := t.s.Goals.Prefetch, longer(ahead)
	t.judge("a run after its prefetch takes longer than one never swapped by", v, "share", "at most "+percent(goal), v <= goal)
	t.remark("Plain faulting takes longer by %s; the paper has 40%% on a V100. A run is counted from dispatch to its end.", percent(longer(faults)))
}

// setSize cuts the paper's working set to seven tenths of the free memory and takes the
// memory.
func (t *trial) setSize() int64 {
	n := int64(t.s.Containers)
	each := t.device.Free/10*7/n - t.contextBytes()
	set := t.fit(n*min(t.s.Set, each)) / n &^ (1<<16 - 1)
	if set < 1<<20 {
		skip("%d containers find only %s each on a card with %s free", n, size(max(set, 0)), size(t.device.Free))
	}
	t.take(n * (set + t.contextBytes()))
	return set
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
		together(func() {
			took := tenants[i%n].run(passes)
			m.whole, m.runs = append(m.whole, ms(time.Since(dispatched))), append(m.runs, ms(took))
		}, func() { bringIn(i + 1) })
	}
	m.took = time.Since(began)
}
