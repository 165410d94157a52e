package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Stats is a copy of a scheduler's figures.
type Stats struct {
	Policy     string
	Queued     int           // invocations
	InFlight   int           // runs that have a token
	Containers int           // not gone
	Devices    []DeviceStats // by index
}

// DeviceStats is a copy of one device's figures.
type DeviceStats struct {
	Device      gpu.Device
	Lost        string // why it cannot be used, empty when it can
	Tokens      int    // 0 for a lost one
	InFlight    int
	Containers  int  // not being removed
	Sampled     bool // Utilization is read
	Utilization float64
	Measured    int64 // bytes in use as last read, negative for unknown
	Used        int64 // charged, all kinds together
	Memory      gpu.Totals
}

// ContainerStats is a copy of one container's figures.
type ContainerStats struct {
	ID       Container
	Device   int
	Flow     sched.FlowID
	Runs     int
	Leaving  bool // it is being removed
	Resident int64
	Incoming int64 // on its way to the device
	Context  int64
}

// Stats copies the figures of the whole.
func (s *Scheduler) Stats() Stats {
	st := Stats{Policy: s.cfg.Policy, Containers: len(s.containers)}
	st.Queued, st.InFlight = s.policy.Len()
	for _, dev := range s.devices {
		st.Devices = append(st.Devices, s.Device(dev.Index))
	}
	return st
}

// Device copies one device's figures.
func (s *Scheduler) Device(index int) DeviceStats {
	dev := s.devices[index]
	d := DeviceStats{
		Device: dev.Device, Lost: dev.lost, InFlight: dev.inFlight, Containers: dev.kept,
		Sampled: dev.sampled, Utilization: dev.tokens.Utilization(), Measured: dev.used,
		Used: dev.ledger.Used(), Memory: dev.ledger.Totals(),
	}
	if dev.lost == "" {
		d.Tokens = dev.d
	}
	return d
}

// Containers copies the figures of all containers, in the order of their creation.
func (s *Scheduler) Containers() []ContainerStats {
	var all []ContainerStats
	for _, id := range slices.Sorted(maps.Keys(s.containers)) {
		all = append(all, s.containers[id].stats())
	}
	return all
}

// Container copies one container's figures; false if it is not known.
func (s *Scheduler) Container(id Container) (ContainerStats, bool) {
	c := s.containers[id]
	if c == nil {
		return ContainerStats{}, false
	}
	return c.stats(), true
}

func (c *container) stats() ContainerStats {
	resident, footprint := c.dev.ledger.Residency(c.id)
	coming := int64(0)
	if c.move.brings() {
		coming = max(0, footprint-resident)
	}
	return ContainerStats{
		Incoming: coming, Context: c.dev.ledger.Overhead(c.id),
		ID: c.id, Device: c.dev.Index, Flow: c.rev.flow.id, Runs: len(c.runs),
		Leaving: c.removing, Resident: resident,
	}
}

// Flow copies one flow's figures; false if it is not known.
func (s *Scheduler) Flow(id sched.FlowID) (sched.FlowStats, bool) { return s.policy.Flow(id) }

// Flows lists the flows that are known, in no order.
func (s *Scheduler) Flows() []sched.FlowID { return slices.Collect(maps.Keys(s.flows)) }

// Resident is the memory of a flow's containers on devices, in bytes; false if the
// flow is not known.
func (s *Scheduler) Resident(id sched.FlowID) (int64, bool) {
	f := s.flows[id]
	if f == nil {
		return 0, false
	}
	all := int64(0)
	for _, rev := range f.revs {
		for _, c := range rev.containers {
			resident, _ := c.dev.ledger.Residency(c.id)
			all += resident
		}
	}
	return all, true
}

// Warm reports whether a revision of a flow has a container that has served and can
// serve again, and whether all of its memory is on its device.
func (s *Scheduler) Warm(id sched.FlowID, key string) (warm, resident bool) {
	rev := s.known(id, key)
	if rev == nil {
		return false, false
	}
	for _, c := range rev.containers {
		if !c.failed && !c.removing && (c.served || c.initialized) {
			there, footprint := c.dev.ledger.Residency(c.id)
			warm, resident = true, resident || there >= footprint
		}
	}
	return warm, resident
}

// known returns a revision of a flow, nil if it is unknown or forgotten.
func (s *Scheduler) known(id sched.FlowID, key string) *revision {
	if f := s.flows[id]; f != nil {
		return f.revision(key)
	}
	return nil
}

// Memory returns the peak memory of an invocation's container since the grant, or the
// reservation if there was no report; false if the invocation does not run.
func (s *Scheduler) Memory(invocation uint64) (int64, bool) {
	r := s.runOf(invocation)
	if r == nil {
		return 0, false
	}
	return r.memory(), true
}

// Footprint returns the device memory that runs of a revision of a flow have needed,
// resident or swapped out; 0 until it was measured.
func (s *Scheduler) Footprint(id sched.FlowID, key string) int64 {
	rev := s.known(id, key)
	if rev == nil {
		return 0
	}
	n, _ := rev.measured.Bytes()
	return n
}

// Usable reports whether any device can be used.
func (s *Scheduler) Usable() bool { return s.lost < len(s.devices) }

// Now is the time of the latest event.
func (s *Scheduler) Now() time.Duration { return s.now }

// Explain returns the rule that delays a flow, and the rule that chose it last. For a flow
// that fits nowhere it names the missing resources.
func (s *Scheduler) Explain(id sched.FlowID) sched.Reason { return s.Explainer()(id) }

// Explainer is Explain for many flows, until the next event.
func (s *Scheduler) Explainer() func(sched.FlowID) sched.Reason {
	explain := s.policy.Explainer(s.now)
	return func(id sched.FlowID) sched.Reason {
		r := explain(id)
		if f := s.flows[id]; r.Rule == sched.RuleNoFit && f != nil {
			r.Missing = s.missing(f)
		}
		return r
	}
}

// missing names the resources that the next run of a flow lacks on the devices with a free
// token, each limit once.
func (s *Scheduler) missing(f *flow) string {
	rev := f.next()
	var all []string
	for _, dev := range s.devices {
		if !dev.open() {
			continue
		}
		own, _, _ := s.serving(dev, rev)
		if why := s.missingOn(dev, rev, own); why != "" && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}

// missingOn names the first limit that keeps a run from fitting on a device.
func (s *Scheduler) missingOn(dev *device, rev *revision, own *container) string {
	need := s.need(dev, rev, own)
	switch {
	case !s.permits(dev, rev, own, need):
		return fmt.Sprintf("namespace %s has reached its limit of %d MiB of device memory (whisk.gpu.namespace-limits)",
			rev.flow.id.Namespace, s.namespaceLimit(rev.flow.id.Namespace)>>20)
	case s.unfit(dev, need) || need.Bytes+need.Context <= s.largest && !s.hasMemory(dev, own, need):
		text := fmt.Sprintf("it needs %d MiB of device memory, and others that run hold too much", (need.Bytes+need.Context)>>20)
		if s.unfit(dev, need) {
			text = fmt.Sprintf("it needs %d MiB of device memory, and the device has %d for containers", (need.Bytes+need.Context)>>20, max(0, dev.ledger.Usable())>>20)
		}
		if n := dev.overdueBytes(); n > 0 {
			text += fmt.Sprintf(", %d MiB in containers whose removal has not ended", n>>20)
		}
		return text
	case own == nil && !s.hasSlot(dev):
		return fmt.Sprintf("all %d containers of the device are in use (whisk.gpu.pool-size)", s.cfg.Pool.Size)
	case own == nil && !s.affords(rev):
		text := fmt.Sprintf("its container takes %d MB of host memory and %d are free (whisk.container-pool.user-memory)", rev.hostMB, s.host.Free)
		if s.kept > 0 && rev.flow != s.claim {
			text += fmt.Sprintf(", %d kept for %s", s.kept, s.claim.id)
		}
		return text
	}
	return ""
}
