package invoker

import (
	"sort"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Facts answers the scheduler's question what a start of a flow on a device
// would be. It is called from within the policy.
func (l *gpuLane) Facts(id sched.FlowID, index int) sched.Facts {
	f, dev := l.flows[id], l.devices[index]
	facts := sched.Facts{Setup: seconds(l.demand.Restart(f.name))}
	own, kind, ok := dev.pool.Peek(f.key)
	if b, _ := l.vacating(dev, f.key); !ok && b != nil {
		own, ok = b.name, true
	}
	if ok {
		kind, facts.Setup = l.warmth(own), 0
	}
	facts.Start = startWord(kind)
	facts.Fits = l.fits(dev, own, f)
	return facts
}

// warmth tells where the memory of a live container is: all of it on the
// device, and staying there, or not.
func (l *gpuLane) warmth(name string) gpu.StartKind {
	b := l.boxes[name]
	if b.gpu.errand.leaves() || !b.gpu.device.ledger.Resident(name) {
		return gpu.HostWarm
	}
	return gpu.GPUWarm
}

// startWord is a start kind as the scheduler has it.
func startWord(k gpu.StartKind) sched.Start {
	return [gpu.StartKinds]sched.Start{
		gpu.GPUWarm: sched.GPUWarm, gpu.HostWarm: sched.HostWarm, gpu.Cold: sched.Cold, gpu.BusyCold: sched.BusyCold,
	}[k]
}

// fits tells whether container, host memory and device memory can be had now,
// counting what idle containers hold as room that can be made. own is the
// container that would serve, empty for a new one.
func (l *gpuLane) fits(dev *device, own string, f *flow) bool {
	need := l.need(f, dev, own)
	ok := dev.ledger.Possible(own, need)
	if all := need.Bytes + need.Context; all > dev.MemoryBytes {
		// What fits no device at all is let through, to be refused with a
		// reason.
		ok = all > l.largest
	}
	if own == "" && ok {
		_, idle := dev.pool.Len()
		ok = !dev.pool.Full() || idle > 0
		if ok && l.d.pool.Free() < f.memoryMB {
			ok, l.short = false, max(l.short, f.memoryMB)
		}
	}
	if !ok {
		l.misfits[f.id] = true
	}
	return ok
}

// touchMisfits lets the policy ask again about flows that did not fit.
func (l *gpuLane) touchMisfits(now time.Duration) {
	for _, id := range sortedFlows(l.misfits) {
		l.policy.Touch(now, id)
	}
	clear(l.misfits)
}

func sortedFlows(set map[sched.FlowID]bool) []sched.FlowID {
	out := make([]sched.FlowID, 0, len(set))
	for id := range set {
		out = append(out, id)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].String() < out[j].String() })
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
