package invoker

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// Status is what the invoker is doing, for the status page and for gauges. All
// of it is copied. What is as it was when somebody asked before may be the same
// item, which therefore nobody changes.
type Status struct {
	// Engine says why the container engine is away; absent when it is there.
	Engine     string             `json:"engine,omitempty"`
	InFlight   int                `json:"inFlight"`
	Capacity   int                `json:"capacity"`
	Pool       container.Stats    `json:"pool"`
	Containers []*ContainerStatus `json:"containers"`
	Policy     string             `json:"policy,omitempty"`
	Backlog    *BacklogStatus     `json:"backlog,omitempty"`
	Devices    []DeviceStatus     `json:"devices,omitempty"`
	Flows      []*FlowStatus      `json:"flows,omitempty"`
}

// BacklogStatus is where the messages of GPU activations are that are accepted
// and not completed. Only of an invoker with devices.
type BacklogStatus struct {
	InMemory int   `json:"inMemory"`
	Bytes    int64 `json:"inMemoryBytes"`
	Parked   int   `json:"parked"` // on disk alone
	// Off says why nothing is parked, Trouble why the last could not be.
	Off     string `json:"off,omitempty"`
	Trouble string `json:"trouble,omitempty"`
}

// ContainerStatus is one container.
type ContainerStatus struct {
	Name     string `json:"name" delta:"key"`
	Kind     string `json:"kind"`
	State    string `json:"state"`
	MemoryMB int    `json:"memoryMB"`
	Active   int    `json:"active"`
	Device   string `json:"device,omitempty"`
	// Flow is the function that a GPU container is of; the sizes are what it
	// has of its device.
	Flow     string `json:"flow,omitempty"`
	Resident int64  `json:"residentBytes,omitempty"`
	Coming   int64  `json:"comingBytes,omitempty"` // on its way to the device
	Context  int64  `json:"contextBytes,omitempty"`
}

// DeviceStatus is one device with its tokens and memory.
type DeviceStatus struct {
	Device string `json:"device" delta:"key"`
	// Names are the values of DeviceLabels, as metrics have them.
	Names      []string `json:"-"`
	Simulated  bool     `json:"simulated"`
	Tokens     int      `json:"tokens"`
	InFlight   int      `json:"inFlight"`
	Containers int      `json:"containers"`
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
	Flow     string  `json:"flow" delta:"key"`
	State    string  `json:"state"`
	Queued   int     `json:"queued"`
	InFlight int     `json:"inFlight"`
	Weight   float64 `json:"weight"`
	LeadMs   int64   `json:"leadMs"`
	// OverrunMs is how far a flow may lead, 0 where the policy has no window.
	OverrunMs int64  `json:"overrunMs,omitempty"`
	VirtualMs int64  `json:"virtualMs"`
	Why       string `json:"why"`
}

// Status asks the dispatcher for a snapshot.
func (iv *Invoker) Status(ctx context.Context) (Status, error) {
	reply := make(chan Status, 1)
	iv.tell(question{reply})
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

// question is somebody's question for a snapshot; reply has room for it.
type question struct{ reply chan Status }

// apply leaves it to look, which is taken when all is decided that waits.
func (e question) apply(d *dispatcher, _ time.Duration) { d.questions = append(d.questions, e) }

// capacity is how many activations may be accepted and not completed.
func (iv *Invoker) capacity() int { return cap(iv.places.common) + iv.places.most.Activations }

func deviceStatus(d lane.DeviceStats) DeviceStatus {
	ds := DeviceStatus{
		Device: d.Device.String(), Names: DeviceValues(d.Device), Simulated: d.Device.Simulated, Containers: d.Containers, Lost: d.Lost,
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
