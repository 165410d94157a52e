package invoker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Status is the invoker's state, for the status page and for gauges. It is a deep copy.
type Status struct {
	// Engine states why the container engine is away; absent when it is there.
	Engine     string             `json:"engine,omitempty"`
	InFlight   int                `json:"inFlight"`
	Capacity   int                `json:"capacity"`
	Pool       container.Stats    `json:"pool"`
	Containers []*ContainerStatus `json:"containers"`
	Policy     string             `json:"policy,omitempty"`
	Backlog    *BacklogStatus     `json:"backlog,omitempty"`
	Devices    []DeviceStatus     `json:"devices,omitempty"`
	Flows      []*FlowStatus      `json:"flows,omitempty"`
	// Queued is how many activations wait, by the flows that have series of their own
	// in metrics and one name for all others.
	Queued map[string]int `json:"-"`
}

// BacklogStatus counts accepted GPU activations that are not completed, on an invoker with
// devices. It leaves out activations that hold a common permit because the backlog is full.
type BacklogStatus struct {
	Activations int   `json:"activations"`
	Bytes       int64 `json:"bytes"` // of their messages
	Limit       int64 `json:"limitBytes"`
}

// ContainerStatus is one container.
type ContainerStatus struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	State    string `json:"state"`
	MemoryMB int    `json:"memoryMB"`
	Active   int    `json:"active"`
	// Function is the function of a CPU container, empty until a run of this process
	// was in it.
	Function string `json:"function,omitempty"`
	Device   string `json:"device,omitempty"`
	// Flow is the function of a GPU container. The sizes are its memory on the device.
	Flow     string `json:"flow,omitempty"`
	Resident int64  `json:"residentBytes,omitempty"`
	Coming   int64  `json:"comingBytes,omitempty"` // on its way to the device
	Context  int64  `json:"contextBytes,omitempty"`
	Pinned   int64  `json:"pinnedBytes,omitempty"` // host memory that it has pinned
}

// DeviceStatus is one device with its tokens and memory.
type DeviceStatus struct {
	Device string `json:"device"`
	// Names are the values of DeviceLabels, as metrics have them.
	Names      []string `json:"-"`
	Simulated  bool     `json:"simulated"`
	Tokens     int      `json:"tokens"`
	InFlight   int      `json:"inFlight"`
	Containers int      `json:"containers"`
	// Lost states why the device cannot be used, empty when it can.
	Lost string `json:"lost,omitempty"`
	// Utilization is the moving average of the readings, 0 to 1; absent where
	// the device is not read.
	Utilization *float64 `json:"utilization,omitempty"`

	Memory   int64 `json:"memoryBytes"`
	Used     int64 `json:"usedBytes"`     // charged, all kinds together
	Resident int64 `json:"residentBytes"` // data of containers on the device
	Reserved int64 `json:"reservedBytes"` // set aside for runs beyond that
	Context  int64 `json:"contextBytes"`  // what containers take beside their data
	Foreign  int64 `json:"foreignBytes"`  // found there, and of no container
	// Measured is the used memory by the device's own reading, of all users; absent if the
	// device is not read.
	Measured *int64 `json:"measuredBytes,omitempty"`
}

// FlowStatus is one function's queue, and why it waits.
type FlowStatus struct {
	Flow     string  `json:"flow"`
	State    string  `json:"state"`
	Queued   int     `json:"queued"`
	InFlight int     `json:"inFlight"`
	Weight   float64 `json:"weight"`
	LeadMs   int64   `json:"leadMs"`
	// PassedOverMs is the device time that others used while the function could not, and that
	// the function does not get back: docs/scheduling.md. PassedBy used the device last.
	PassedOverMs int64  `json:"passedOverMs,omitempty"`
	PassedBy     string `json:"passedBy,omitempty"`
	// OverrunMs is how far a flow may lead, 0 where the policy has no window.
	OverrunMs int64  `json:"overrunMs,omitempty"`
	VirtualMs int64  `json:"virtualMs"`
	Why       string `json:"why"`
	// Paused: it failed again and again, and its work waits for a while.
	Paused bool `json:"paused,omitempty"`
}

// Status asks the dispatcher for a snapshot.
func (iv *Invoker) Status(ctx context.Context) (Status, error) {
	reply := make(chan Status, 1)
	iv.dispatch.post(question{reply})
	var s Status
	select {
	case s = <-reply:
	case <-iv.ended:
		return Status{Capacity: iv.capacity()}, nil
	case <-ctx.Done():
		return Status{}, ctx.Err()
	}
	s.InFlight, s.Capacity = iv.InFlight(), iv.capacity()
	s.Engine = iv.health.Reason()
	return s, nil
}

// question is a request for a snapshot; the capacity of reply is 1.
type question struct{ reply chan Status }

// apply leaves it to answerStatus.
func (e question) apply(d *dispatcher, _ time.Duration) { d.questions = append(d.questions, e) }

func (g *gpuScheduler) backlogStatus() *BacklogStatus {
	activations, bytes := g.d.completer.backlog()
	return &BacklogStatus{Activations: activations, Bytes: bytes, Limit: g.settings.BacklogBytes}
}

// capacity is how many activations may be accepted and not completed beside the GPU backlog.
func (iv *Invoker) capacity() int { return iv.settings.InFlight }

func deviceStatus(d scheduler.DeviceStats) DeviceStatus {
	ds := DeviceStatus{
		Device: d.Device.String(), Names: DeviceLabelValues(d.Device), Simulated: d.Device.Simulated, Containers: d.Containers, Lost: d.Lost,
		Tokens: d.Tokens, InFlight: d.InFlight, Memory: d.Device.MemoryBytes, Used: d.Used,
		Resident: d.Memory.Resident, Reserved: d.Memory.Reserved, Context: d.Memory.Context, Foreign: d.Memory.Foreign,
	}
	if d.Sampled {
		ds.Utilization = &d.Utilization
	}
	if d.Measured >= 0 {
		ds.Measured = &d.Measured
	}
	return ds
}

// answerStatus answers the questions, when all is decided.
func (d *dispatcher) answerStatus() {
	s := d.snapshot()
	for _, q := range d.questions {
		q.reply <- s
	}
	d.questions = nil
}

// snapshot returns the dispatcher's state.
func (d *dispatcher) snapshot() Status {
	s := Status{Pool: d.pool.Stats(), Containers: []*ContainerStatus{}}
	for _, v := range d.pool.Views() {
		if ctr := d.containers[v.Slot]; ctr != nil {
			c := &ContainerStatus{Name: ctr.name, Kind: v.Kind, State: v.State, MemoryMB: v.MemoryMB, Active: v.Active}
			if ctr.function != (sched.FlowID{}) {
				c.Function = ctr.function.String()
			}
			s.Containers = append(s.Containers, c)
		}
	}
	if g := d.gpus; g != nil {
		st := g.core.Stats()
		s.Policy, s.Backlog, s.Flows = st.Policy, g.backlogStatus(), flowStatuses(g.core)
		s.Queued = d.metrics.queueDepths(g.core)
		for _, c := range g.core.Containers() {
			if ctr := g.containers[c.ID]; ctr != nil {
				s.Containers = append(s.Containers, ctr.status(c))
			}
		}
		for _, d := range st.Devices {
			s.Devices = append(s.Devices, deviceStatus(d))
		}
	}
	return s
}

// status is the state of a GPU container.
func (ctr *actionContainer) status(s scheduler.ContainerStats) *ContainerStatus {
	st := &ContainerStatus{
		Name: ctr.name, Kind: ctr.spec.Kind, MemoryMB: ctr.spec.MemoryMB, State: "ready", Device: ctr.gpu.device.String(), Flow: s.Flow.String(),
		Resident: s.Resident, Coming: s.Incoming, Context: s.Context,
	}
	switch {
	case s.Leaving:
		st.State = "removing"
	case s.Runs > 0:
		st.State, st.Active = "running", s.Runs
	}
	return st
}

// flowStatuses lists all flows by namespace and function.
func flowStatuses(core *scheduler.Scheduler) []*FlowStatus {
	ids := core.Flows()
	slices.SortFunc(ids, func(a, b sched.FlowID) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Function, b.Function))
	})
	all, explain := make([]*FlowStatus, 0, len(ids)), core.Explainer()
	for _, id := range ids {
		f, ok := core.Flow(id)
		if !ok {
			continue
		}
		why := explain(id)
		by := ""
		if f.PassedOver > 0 {
			by = f.PassedBy.String()
		}
		all = append(all, &FlowStatus{
			Flow: id.String(), State: f.State.String(), Queued: f.Queued, InFlight: f.InFlight,
			Weight: f.Weight, LeadMs: f.Lead.Milliseconds(), OverrunMs: why.Overrun.Milliseconds(),
			PassedOverMs: f.PassedOver.Milliseconds(), PassedBy: by,
			VirtualMs: f.VT.Milliseconds(), Why: why.String(), Paused: why.Rule == sched.RuleBackoff,
		})
	}
	return all
}
