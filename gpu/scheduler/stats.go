package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Stats is a copy of a scheduler's figures.
type Stats struct {
	Policy     string
	Queued     int // invocations
	Flows      int // known
	Containers int // not gone
	Leaving    int // MiB of host memory of containers on their way out
	// Misjudged counts grants for which there was no slot after all. It stays
	// 0 where Placement is right.
	Misjudged uint64
	Sched     sched.Stats
	Devices   []DeviceStats // by index
}

// DeviceStats is a copy of one device's figures.
type DeviceStats struct {
	Device      gpu.Device
	Lost        string // why it cannot be used, empty when it can
	Tokens      int    // 0 for a lost one
	InFlight    int
	Containers  int
	Idle        int
	Sampled     bool // Utilization is read
	Utilization float64
	Measured    int64 // bytes used by anybody as last read, negative for unknown
	Used        int64 // charged, all kinds together
	Memory      gpu.Totals
	Waiting     int // reservations that do not stand yet
}

// ContainerStats is a copy of one container's figures.
type ContainerStats struct {
	ID       Container
	Device   int
	Flow     sched.FlowID
	Runs     int
	Created  bool // its container exists
	Leaving  bool // it is being removed
	Resident int64
	Incoming int64 // on its way to the device
	Context  int64
}

// Stats copies the figures of the whole.
func (l *Scheduler) Stats() Stats {
	s := Stats{
		Sched: l.policy.Stats(), Queued: l.queued, Flows: len(l.flows), Containers: len(l.containers),
		Leaving: l.leaving, Misjudged: l.misjudged,
	}
	s.Policy = s.Sched.Policy
	for _, dev := range l.devices {
		s.Devices = append(s.Devices, l.Device(dev.Index))
	}
	return s
}

// Device copies one device's figures.
func (l *Scheduler) Device(index int) DeviceStats {
	dev := l.devices[index]
	all, idle := dev.pool.Len()
	d := DeviceStats{
		Device: dev.Device, Lost: dev.lost, InFlight: dev.inFlight, Containers: all, Idle: idle,
		Sampled: dev.sampled, Utilization: dev.tokens.Utilization(), Measured: dev.used,
		Used: dev.ledger.Used(), Memory: dev.ledger.Totals(), Waiting: dev.ledger.Waiting(),
	}
	if dev.lost == "" {
		d.Tokens = dev.d
	}
	return d
}

// Containers appends the figures of all containers, in the order of their making.
func (l *Scheduler) Containers(buf []ContainerStats) []ContainerStats {
	start := len(buf)
	for _, b := range l.containers {
		buf = append(buf, b.stats())
	}
	slices.SortFunc(buf[start:], func(a, b ContainerStats) int { return int(a.ID) - int(b.ID) })
	return buf
}

// Container copies one container's figures; false if it is not known.
func (l *Scheduler) Container(id Container) (ContainerStats, bool) {
	b := l.containers[id]
	if b == nil {
		return ContainerStats{}, false
	}
	return b.stats(), true
}

func (b *container) stats() ContainerStats {
	coming := int64(0)
	if b.move.brings() {
		_, footprint := b.dev.ledger.Residency(b.name)
		coming = max(0, footprint-b.resident)
	}
	return ContainerStats{
		Incoming: coming, Context: b.dev.ledger.Overhead(b.name),
		ID: b.id, Device: b.dev.Index, Flow: b.rev.flow.id, Runs: len(b.runs),
		Created: b.created, Leaving: b.removing, Resident: b.resident,
	}
}

// DirtyCount is how many containers Dirty would report.
func (l *Scheduler) DirtyCount() int { return len(l.dirty) }

// Dirty reports the figures of containers that are new or may have changed since it
// last reported them, those that are gone left out: of the first n at most so many.
// It gives how many of the n are left; those behind them became dirty since. Call it
// between a Ready and the next event.
//
// An open console asks once a second how thousands of containers are, and most of
// them are as they were.
func (l *Scheduler) Dirty(n, most int, report func(ContainerStats)) (left int) {
	n = min(n, len(l.dirty))
	most = min(n, most)
	for _, c := range l.dirty[:most] {
		c.dirty = false
		report(c.stats())
	}
	l.dirty = slices.Delete(l.dirty, 0, most)
	return n - most
}

// setDirty has Dirty report a container.
func (l *Scheduler) setDirty(c *container) {
	if !c.dirty {
		c.dirty = true
		l.dirty = append(l.dirty, c)
	}
}

// Flow copies one flow's figures; false if it is not known.
func (l *Scheduler) Flow(id sched.FlowID) (sched.FlowStats, bool) { return l.policy.Flow(id) }

// Known is how many flows the scheduler knows.
func (l *Scheduler) Known() int { return len(l.flows) }

// Flows lists the flows that the scheduler knows, in no order.
func (l *Scheduler) Flows() []sched.FlowID {
	out := make([]sched.FlowID, 0, len(l.flows))
	for id := range l.flows {
		out = append(out, id)
	}
	return out
}

// Resident is what a flow's containers hold on devices, in bytes; false if the flow
// is not known.
func (l *Scheduler) Resident(id sched.FlowID) (int64, bool) {
	if f := l.flows[id]; f != nil {
		return f.resident, true
	}
	return 0, false
}

// Memory is the most that an invocation's container held while the invocation had its token, or,
// of a container that has not said, what was set aside; false if it has none.
func (l *Scheduler) Memory(invocation uint64) (int64, bool) {
	r := l.runOf(invocation)
	if r == nil {
		return 0, false
	}
	return r.memory(), true
}

// Footprint returns what runs of a revision of a flow have held of a device, on it
// or swapped out; 0 while that is not known.
func (l *Scheduler) Footprint(id sched.FlowID, key string) int64 {
	f := l.flows[id]
	if f == nil {
		return 0
	}
	at := slices.IndexFunc(f.revs, func(r *revision) bool { return r.key == key })
	if at < 0 {
		return 0
	}
	n, _ := f.revs[at].measured.Bytes()
	return n
}

// Now is the time of the latest event.
func (l *Scheduler) Now() time.Duration { return l.now }

// Explain says what holds a flow, or which rule chose it last. Of one that fits
// nowhere it names what lacks.
func (l *Scheduler) Explain(id sched.FlowID) sched.Reason {
	r := l.policy.Explain(l.now, id)
	if f := l.flows[id]; r.Rule == sched.RuleNoFit && f != nil {
		r.Missing = l.missing(f)
	}
	return r
}

// missing names what the next run of a flow lacks on the devices with a free token,
// each limit once.
func (l *Scheduler) missing(f *flow) string {
	rev := f.next()
	var all []string
	for _, dev := range l.devices {
		if dev.lost != "" || dev.inFlight >= dev.d {
			continue
		}
		own, _, _ := l.serving(dev, rev)
		if why := l.missingOn(dev, rev, own); why != "" && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}

// missingOn names the first limit that fits finds reached.
func (l *Scheduler) missingOn(dev *device, rev *revision, own *container) string {
	need := l.need(dev, rev, own)
	switch {
	case !l.permits(dev, rev, own, need.Bytes):
		return fmt.Sprintf("namespace %s has reached its limit of %d MiB of device memory (whisk.gpu.namespace-limits)",
			rev.flow.id.Namespace, l.namespaceLimit(rev.flow.id.Namespace)>>20)
	case !l.hasMemory(dev, rev, own):
		return fmt.Sprintf("it needs %d MiB of device memory, and others that run hold too much", (need.Bytes+need.Context)>>20)
	case own == nil && !l.hasSlot(dev):
		return fmt.Sprintf("all %d containers of the device are in use (whisk.gpu.pool-size)", l.cfg.Pool.Size)
	case own == nil && !l.affords(rev):
		return fmt.Sprintf("a container of it takes %d MB of host memory and %d are free (whisk.container-pool.user-memory)", rev.hostMB, l.host.Free)
	}
	return ""
}
