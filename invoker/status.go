package invoker

import (
	"context"
	"sort"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Status is what the invoker is doing, for the status page and for gauges. All
// of it is copied.
type Status struct {
	InFlight   int               `json:"inFlight"`
	Capacity   int               `json:"capacity"`
	Pool       container.Stats   `json:"pool"`
	Containers []ContainerStatus `json:"containers"`
	Policy     string            `json:"policy,omitempty"`
	Devices    []DeviceStatus    `json:"devices,omitempty"`
	Flows      []FlowStatus      `json:"flows,omitempty"`
}

// ContainerStatus is one container.
type ContainerStatus struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	State    string `json:"state"`
	MemoryMB int    `json:"memoryMB"`
	Active   int    `json:"active"`
	Device   string `json:"device,omitempty"`
}

// DeviceStatus is one device with its tokens and memory.
type DeviceStatus struct {
	Device     string `json:"device"`
	Simulated  bool   `json:"simulated"`
	Tokens     int    `json:"tokens"`
	InFlight   int    `json:"inFlight"`
	Containers int    `json:"containers"`
	// Lost says why the device cannot be used, empty when it can.
	Lost string `json:"lost,omitempty"`
	// Utilization is the moving average of the readings, 0 to 1; absent where
	// nobody reads the device.
	Utilization *float64 `json:"utilization,omitempty"`

	Memory   int64 `json:"memoryBytes"`
	Used     int64 `json:"usedBytes"`     // charged, all kinds together
	Resident int64 `json:"residentBytes"` // data of containers on the device
	Reserved int64 `json:"reservedBytes"` // set aside for runs beyond that
	Context  int64 `json:"contextBytes"`  // what containers take beside their data
	Foreign  int64 `json:"foreignBytes"`  // found there, and of no container
	// Measured is what the device itself shows as used by anybody; absent
	// where nobody reads it.
	Measured *int64 `json:"measuredBytes,omitempty"`
}

// FlowStatus is one function's queue, and what holds it.
type FlowStatus struct {
	Flow     string  `json:"flow"`
	State    string  `json:"state"`
	Queued   int     `json:"queued"`
	InFlight int     `json:"inFlight"`
	Weight   float64 `json:"weight"`
	LeadMs   int64   `json:"leadMs"`
	Why      string  `json:"why"`
}

// Status asks the dispatcher for a snapshot.
func (iv *Invoker) Status(ctx context.Context) (Status, error) {
	reply := make(chan Status, 1)
	select {
	case iv.dispatch.status <- reply:
	case <-iv.ended:
		return Status{Capacity: iv.settings.InFlight}, nil
	case <-ctx.Done():
		return Status{}, ctx.Err()
	}
	s := <-reply
	s.InFlight, s.Capacity = iv.InFlight(), iv.settings.InFlight
	return s, nil
}

func (d *dispatcher) snapshot(now time.Duration) Status {
	s := Status{Pool: d.pool.Stats()}
	for _, v := range d.pool.Views() {
		name := ""
		if b := d.boxes[v.Slot]; b != nil {
			name = b.name
		}
		s.Containers = append(s.Containers, ContainerStatus{
			Name: name, Kind: v.Kind, State: v.State, MemoryMB: v.MemoryMB, Active: v.Active,
		})
	}
	d.gpus.snapshot(now, &s)
	return s
}

func (l *gpuLane) snapshot(now time.Duration, s *Status) {
	if l == nil {
		return
	}
	st := l.policy.Stats()
	s.Policy = st.Policy
	for _, dev := range l.devices {
		ds := dev.status()
		for _, figures := range st.Devices {
			if figures.Device == dev.Index {
				ds.InFlight = figures.InFlight
			}
		}
		s.Devices = append(s.Devices, ds)
	}
	for id := range l.flows {
		if fs, ok := l.policy.Flow(id); ok {
			s.Flows = append(s.Flows, l.flowStatus(now, fs))
		}
	}
	sort.Slice(s.Flows, func(i, j int) bool { return s.Flows[i].Flow < s.Flows[j].Flow })
	for _, b := range l.boxes {
		s.Containers = append(s.Containers, b.status())
	}
	sort.Slice(s.Containers, func(i, j int) bool { return s.Containers[i].Name < s.Containers[j].Name })
}

func (dev *device) status() DeviceStatus {
	all, _ := dev.pool.Len()
	t := dev.ledger.Totals()
	ds := DeviceStatus{
		Device: dev.String(), Simulated: dev.Simulated, Containers: all, Lost: dev.lost,
		Memory: dev.MemoryBytes, Used: dev.ledger.Used(),
		Resident: t.Resident, Reserved: t.Reserved, Context: t.Context, Foreign: t.Foreign,
	}
	if dev.lost == "" {
		ds.Tokens = dev.d
	}
	if dev.sampled {
		u := dev.tokens.Utilization()
		ds.Utilization = &u
	}
	if used := dev.used; used >= 0 {
		ds.Measured = &used
	}
	return ds
}

func (l *gpuLane) flowStatus(now time.Duration, fs sched.FlowStats) FlowStatus {
	return FlowStatus{
		Flow: fs.Flow.String(), State: fs.State.String(), Queued: fs.Queued, InFlight: fs.InFlight,
		Weight: fs.Weight, LeadMs: fs.Lead.Milliseconds(), Why: l.policy.Explain(now, fs.Flow).String(),
	}
}

func (b *box) status() ContainerStatus {
	c := ContainerStatus{
		Name: b.name, Kind: b.spec.Kind, MemoryMB: b.spec.MemoryMB, State: "ready",
		Device: b.gpu.device.String(),
	}
	switch {
	case b.gpu.doomed:
		c.State = "removing"
	case len(b.gpu.runs) > 0:
		c.State, c.Active = "running", len(b.gpu.runs)
	}
	return c
}
