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
	Memory     int64  `json:"memoryBytes"`
	Used       int64  `json:"usedBytes"`
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
	for i, dev := range l.devices {
		all, _ := dev.pool.Len()
		ds := DeviceStatus{
			Device: dev.String(), Simulated: dev.Simulated, Containers: all,
			Memory: dev.MemoryBytes, Used: dev.ledger.Used(),
		}
		if i < len(st.Devices) {
			ds.Tokens, ds.InFlight = st.Devices[i].Tokens, st.Devices[i].InFlight
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
	case b.gpu.busy:
		c.State, c.Active = "running", 1
	}
	return c
}
