package lane

import (
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Stats is a copy of a lane's figures.
type Stats struct {
	Policy  string
	Queued  int // items
	Flows   int // known
	Boxes   int // not gone
	Leaving int // MiB of host memory of boxes on their way out
	// Misjudged counts grants for which there was no place after all. It stays
	// 0 where Facts tells the truth.
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

// BoxStats is a copy of one box's figures.
type BoxStats struct {
	Box      Box
	Device   int
	Flow     sched.FlowID
	Runs     int
	Made     bool // its container exists
	Leaving  bool // it is being removed
	Resident int64
	Coming   int64 // on its way to the device
	Context  int64
}

// Stats copies the figures of the whole.
func (l *Lane) Stats() Stats {
	s := Stats{
		Sched: l.policy.Stats(), Queued: l.queue.queued, Flows: len(l.flows), Boxes: len(l.boxes),
		Leaving: l.leaving, Misjudged: l.misjudged,
	}
	s.Policy = s.Sched.Policy
	for _, dev := range l.devices {
		s.Devices = append(s.Devices, l.Device(dev.Index))
	}
	return s
}

// Device copies one device's figures.
func (l *Lane) Device(index int) DeviceStats {
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

// Boxes appends the figures of all boxes, in the order of their making.
func (l *Lane) Boxes(buf []BoxStats) []BoxStats {
	start := len(buf)
	for _, b := range l.boxes {
		buf = append(buf, b.stats())
	}
	slices.SortFunc(buf[start:], func(a, b BoxStats) int { return int(a.Box) - int(b.Box) })
	return buf
}

// Box copies one box's figures; false if it is not known.
func (l *Lane) Box(id Box) (BoxStats, bool) {
	b := l.boxes[id]
	if b == nil {
		return BoxStats{}, false
	}
	return b.stats(), true
}

func (b *box) stats() BoxStats {
	coming := int64(0)
	if b.errand.brings() {
		_, footprint := b.dev.ledger.Residency(b.name)
		coming = max(0, footprint-b.resident)
	}
	return BoxStats{
		Coming: coming, Context: b.dev.ledger.Overhead(b.name),
		Box: b.id, Device: b.dev.Index, Flow: b.rev.flow.id, Runs: len(b.runs),
		Made: b.made, Leaving: b.doomed, Resident: b.resident,
	}
}

// Flow copies one flow's figures; false if it is not known.
func (l *Lane) Flow(id sched.FlowID) (sched.FlowStats, bool) { return l.policy.Flow(id) }

// Known is how many flows the lane knows.
func (l *Lane) Known() int { return len(l.flows) }

// Flows lists the flows that the lane knows, in no order.
func (l *Lane) Flows() []sched.FlowID {
	out := make([]sched.FlowID, 0, len(l.flows))
	for id := range l.flows {
		out = append(out, id)
	}
	return out
}

// Resident is what a flow's boxes hold on devices, in bytes; false if the flow
// is not known.
func (l *Lane) Resident(id sched.FlowID) (int64, bool) {
	if f := l.flows[id]; f != nil {
		return f.resident, true
	}
	return 0, false
}

// Memory is the most that an item's box held while the item had its token, or,
// of a box that has not said, what was set aside; false if it has none.
func (l *Lane) Memory(item uint64) (int64, bool) {
	r := l.queue.run(item)
	if r == nil {
		return 0, false
	}
	return r.memory(), true
}

// Footprint returns what runs of a revision of a flow have held of a device, on it
// or swapped out; 0 while that is not known.
func (l *Lane) Footprint(id sched.FlowID, key string) int64 {
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
func (l *Lane) Now() time.Duration { return l.now }
