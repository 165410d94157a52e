package gpucheck

import (
	"fmt"
	"slices"
	"time"
)

// figure runs containers one after the other, over and over: the worst order for
// memory of which the least recently used leaves first.
//
// Paper, section 5.3: sixteen copies of FFT with 1.5 GB each on a card of 16 GB.
// Here the device memory that may be used is cut to two thirds of what all need
// together, so that the card is never filled.
type figure struct {
	*trial
	tenants  []*guest
	passes   int
	resident []int // tenants on the device, the least recently used first
}

// mode is one way of having memory there, and what came of it.
type mode struct {
	name     string
	fits     int       // how many sets fit the device
	faulting bool      // sets come in by faults
	whole    []float64 // ms from dispatch to the end
	runs     []float64 // ms, without the wait for memory
	out, in  int64
}

// checkPrefetch compares containers that are never swapped with those whose memory
// is brought in ahead of their run, and with those that fault it in.
func checkPrefetch(t *trial) {
	set, all := t.setSize(), t.s.Containers
	f := &figure{trial: t, tenants: make([]*guest, all)}
	parallel(all, 4, func(i int) { f.tenants[i] = t.worker(set, 100+i) })
	f.passes = f.tenants[0].calibrate(t.s.RunTime)
	some := max(2*all/3, 2)
	never := &mode{name: "never swapped", fits: all}
	ahead := &mode{name: "evicted, prefetched ahead", fits: some}
	faults := &mode{name: "evicted, faulted in", fits: some, faulting: true}
	longer := func(m *mode) float64 { return share(median(m.whole), median(never.whole)) - 1 }
	table := t.table(fmt.Sprintf("%d containers of %s one after the other, %d passes a run, %s of device memory",
		all, size(set), f.passes, size(int64(some)*set)),
		"memory", "median ms", "90% ms", "run alone ms", "against never swapped", "moved out", "moved in", "all runs s")
	for _, m := range []*mode{never, ahead, faults} {
		took := f.play(m)
		table.row(m.name, fmt.Sprintf("%.1f", median(m.whole)), fmt.Sprintf("%.1f", quantile(0.9, m.whole)),
			fmt.Sprintf("%.1f", median(m.runs)), fmt.Sprintf("%+.1f%%", 100*longer(m)),
			size(m.out), size(m.in), fmt.Sprintf("%.2f", took.Seconds()))
	}
	t.none("wrong words in all containers, after all", wrongWords(f.tenants...))
	t.must("MiB moved out for others while they ran one after the other", float64(ahead.out>>20), "more than 0",
		ahead.out > 0 && faults.out > 0 && ahead.in > 0)
	t.none("MiB moved out while never swapped", never.out>>20)
	goal, v := t.s.Goals.Prefetch, longer(ahead)
	t.judge("a run after its prefetch takes longer than one never swapped by", v, "share", "at most "+percent(goal), v <= goal)
	t.remark("Plain faulting takes longer by %s; the paper has 40%% on a V100. A run is counted from dispatch to its end.", percent(longer(faults)))
}

// setSize cuts the paper's working set to seven tenths of what is free, and takes the
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

// play starts with all sets on the device if all fit, else with none. Its first round,
// in which every container comes in for the first time, is not measured.
func (f *figure) play(m *mode) time.Duration {
	f.resident = nil
	for i, x := range f.tenants {
		if m.fits >= len(f.tenants) {
			f.prefetch(x)
			f.resident = append(f.resident, i)
		} else {
			f.evict(x)
		}
	}
	f.round(m)
	m.whole, m.runs, m.out, m.in = nil, nil, 0, 0
	began := time.Now()
	f.round(m)
	f.round(m)
	return time.Since(began)
}

// round runs each container once, and brings in the next one's memory meanwhile, as
// the invoker does.
func (f *figure) round(m *mode) {
	for i, x := range f.tenants {
		began := time.Now()
		f.bringIn(m, i, i)
		parallel(2, 2, func(n int) {
			if n == 1 {
				f.bringIn(m, (i+1)%len(f.tenants), i)
				return
			}
			took := x.run(f.passes)
			m.whole, m.runs = append(m.whole, ms(time.Since(began))), append(m.runs, ms(took))
		})
	}
}

// bringIn moves a container's set to the device, and before that the sets out that
// were not used for longest. The one that runs stays.
func (f *figure) bringIn(m *mode, i, running int) {
	if at := slices.Index(f.resident, i); at >= 0 {
		f.resident = append(slices.Delete(f.resident, at, at+1), i)
		return
	}
	for len(f.resident) >= m.fits {
		oldest := slices.IndexFunc(f.resident, func(n int) bool { return n != running })
		m.out += f.evict(f.tenants[f.resident[oldest]]).Moved
		f.resident = slices.Delete(f.resident, oldest, oldest+1)
	}
	if !m.faulting {
		m.in += f.prefetch(f.tenants[i]).Moved
	}
	f.resident = append(f.resident, i)
}
