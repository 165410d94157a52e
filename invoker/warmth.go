package invoker

import (
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Warmth is whether a revision of a GPU function has a container here that can serve
// it, and whether that has all of its memory on the device.
type Warmth struct {
	Namespace string // that invokes
	Function  string // path/name
	Revision  string

	Warm, Resident bool
}

// warmth reports it where it has changed. A nil one does nothing.
type warmth struct {
	report   func(Warmth)
	dirty    map[sched.FlowID]bool
	reported map[sched.FlowID][]Warmth // what is warm
}

func newWarmth(report func(Warmth)) *warmth {
	if report == nil {
		return nil
	}
	return &warmth{report: report, dirty: map[sched.FlowID]bool{}, reported: map[sched.FlowID][]Warmth{}}
}

// changed has the function of a container, if there is one, looked at.
func (w *warmth) changed(ctr *actionContainer) {
	if w != nil && ctr != nil {
		w.dirty[ctr.gpu.flow] = true
	}
}

// observe is called when the GPU scheduler has decided.
func (w *warmth) observe(core *scheduler.Scheduler, containers map[scheduler.Container]*actionContainer) {
	if w == nil || len(w.dirty) == 0 {
		return
	}
	is := map[sched.FlowID][]Warmth{}
	for _, ctr := range containers {
		g := ctr.gpu
		if !w.dirty[g.flow] || !g.specified {
			continue
		}
		if warm, resident := core.Warm(g.flow, g.key); warm {
			is[g.flow] = merge(is[g.flow], Warmth{g.flow.Namespace, g.flow.Function, g.revision, true, resident})
		}
	}
	for flow := range w.dirty {
		for _, was := range w.reported[flow] {
			if find(is[flow], was.Revision) == nil {
				was.Warm, was.Resident = false, false
				w.report(was)
			}
		}
		for _, now := range is[flow] {
			if was := find(w.reported[flow], now.Revision); was == nil || *was != now {
				w.report(now)
			}
		}
		if w.reported[flow] = is[flow]; len(is[flow]) == 0 {
			delete(w.reported, flow)
		}
	}
	clear(w.dirty)
}

// merge adds what a container shows of its revision: others of it may be resident.
func merge(all []Warmth, one Warmth) []Warmth {
	if known := find(all, one.Revision); known != nil {
		known.Resident = known.Resident || one.Resident
		return all
	}
	return append(all, one)
}

func find(all []Warmth, revision string) *Warmth {
	for i := range all {
		if all[i].Revision == revision {
			return &all[i]
		}
	}
	return nil
}
