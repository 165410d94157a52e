package invoker

import (
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// WarmState reports that the containers of a GPU function's revision have changed: whether
// one of them can serve the revision (Warm), and whether all memory of one of them is on
// the device (Resident).
type WarmState struct {
	Namespace string // of the caller
	Function  string // path/name
	Revision  string

	Warm, Resident bool
}

// warmStates reports changed WarmStates. Classic mode has a nil warmStates, whose methods are
// no-ops.
type warmStates struct {
	events   Events
	dirty    map[sched.FlowID]bool
	reported map[sched.FlowID][]WarmState // the warm revisions
}

func newWarmStates(events Events) *warmStates {
	if events == nil {
		return nil
	}
	return &warmStates{events: events, dirty: map[sched.FlowID]bool{}, reported: map[sched.FlowID][]WarmState{}}
}

// markDirty marks the function of a container for the next observe. ctr may be nil.
func (w *warmStates) markDirty(ctr *actionContainer) {
	if w != nil && ctr != nil {
		w.dirty[ctr.gpu.flow] = true
	}
}

// observe reports the changes of marked functions. It is called after the GPU scheduler's
// decisions.
func (w *warmStates) observe(core *scheduler.Scheduler, containers map[scheduler.Container]*actionContainer) {
	if w == nil || len(w.dirty) == 0 {
		return
	}
	current := map[sched.FlowID][]WarmState{}
	for _, ctr := range containers {
		g := ctr.gpu
		if !w.dirty[g.flow] || !g.specified {
			continue
		}
		if warm, resident := core.Warm(g.flow, g.key); warm {
			current[g.flow] = merge(current[g.flow], WarmState{g.flow.Namespace, g.flow.Function, g.revision, true, resident})
		}
	}
	for flow := range w.dirty {
		for _, before := range w.reported[flow] {
			if find(current[flow], before.Revision) == nil {
				before.Warm, before.Resident = false, false
				w.events.Notify(before)
			}
		}
		for _, now := range current[flow] {
			if before := find(w.reported[flow], now.Revision); before == nil || *before != now {
				w.events.Notify(now)
			}
		}
		if w.reported[flow] = current[flow]; len(current[flow]) == 0 {
			delete(w.reported, flow)
		}
	}
	clear(w.dirty)
}

// merge adds the state of one container to the states of its function's revisions. A
// revision is resident if one of its containers is.
func merge(all []WarmState, one WarmState) []WarmState {
	if known := find(all, one.Revision); known != nil {
		known.Resident = known.Resident || one.Resident
		return all
	}
	return append(all, one)
}

func find(all []WarmState, revision string) *WarmState {
	for i := range all {
		if all[i].Revision == revision {
			return &all[i]
		}
	}
	return nil
}
