//go:build cgo && linux

package nvml

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// events waits for the driver's own reports: XID errors and memory errors. A report
// concerns a whole card; origin maps it to devices.
type events struct {
	set    nvml.EventSet
	fault  func(Fault)
	cards  map[string]uint64 // kinds that a card reports, by its UUID
	origin []origin
}

// origin is a device's card, and its GPU instance if it is a slice.
type origin struct {
	device   int
	card     string
	instance uint32
}

// everywhere is the GPU instance of an event that is of the whole card.
const everywhere = math.MaxUint32

const eventMask = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError

// waitMillis bounds one wait, and with it the time that Close takes.
const waitMillis = 500

// retryAfter is the pause after a wait that failed, so that a driver which
// fails at once is not called in a tight loop.
const retryAfter = time.Second

// listen registers for the events of the devices' cards. It returns nil where
// the driver has none.
func (d *Driver) listen(devices []*watched, fault func(Fault)) *events {
	set, ret := d.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return nil
	}
	e := &events{set: set, fault: fault, cards: map[string]uint64{}}
	for _, w := range devices {
		d.register(e, w)
	}
	if len(e.origin) == 0 {
		_ = set.Free() // of no use either way
		return nil
	}
	return e
}

func (d *Driver) register(e *events, w *watched) {
	h, ret := d.lib.DeviceGetHandleByUUID(w.device.UUID)
	if ret != nvml.SUCCESS {
		return
	}
	o := origin{device: w.device.Index, card: w.device.UUID, instance: everywhere}
	if w.device.Sharing == gpu.MIGSlice {
		if n, ret := h.GetGpuInstanceId(); ret == nvml.SUCCESS && n >= 0 {
			o.instance = uint32(n)
		}
		if h, ret = h.GetDeviceHandleFromMigDeviceHandle(); ret != nvml.SUCCESS {
			return
		}
		o.card, _ = h.GetUUID()
	}
	if _, done := e.cards[o.card]; !done {
		kinds, ret := h.GetSupportedEventTypes()
		if kinds &= eventMask; ret != nvml.SUCCESS || kinds == 0 || h.RegisterEvents(kinds, e.set) != nvml.SUCCESS {
			return
		}
		e.cards[o.card] = kinds
	}
	e.origin = append(e.origin, o)
}

// subscribed reports whether memory errors of a device come as events.
func (e *events) subscribed(device gpu.Device) bool {
	if e == nil {
		return false
	}
	i := slices.IndexFunc(e.origin, func(o origin) bool { return o.device == device.Index })
	return i >= 0 && e.cards[e.origin[i].card]&nvml.EventTypeDoubleBitEccError != 0
}

func (e *events) run(ctx context.Context) {
	defer func() { _ = e.set.Free() }() // the library ends next
	for ctx.Err() == nil {
		data, ret := e.set.Wait(waitMillis)
		switch ret {
		case nvml.SUCCESS:
			e.report(data, time.Now())
		case nvml.ERROR_TIMEOUT:
		default: // a lost device shows in the samples, which name it
			retry.Sleep(ctx, retryAfter)
		}
	}
}

// report passes an event on for every device that it concerns.
func (e *events) report(data nvml.EventData, now time.Time) {
	card := ""
	if data.Device != nil {
		card, _ = data.Device.GetUUID()
	}
	for _, o := range e.origin {
		if !o.concerned(card, data.GpuInstanceId) {
			continue
		}
		switch data.EventType {
		case nvml.EventTypeXidCriticalError:
			e.fault(xidFault(o.device, now, data.EventData))
		case nvml.EventTypeDoubleBitEccError:
			e.fault(eccFault(o.device, now))
		}
	}
}

// concerned reports whether an event is about this device. An event without a card,
// which has just died, is about all devices; one without an instance is about every
// slice of its card.
func (o origin) concerned(card string, instance uint32) bool {
	return (card == "" || card == o.card) &&
		(instance == everywhere || o.instance == everywhere || instance == o.instance)
}
