package invoker

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// device is one GPU with its books.
type device struct {
	gpu.Device
	pool   *gpu.Pool
	ledger *gpu.Ledger
	tokens *gpu.Tokens
	busy   int
	// leaving is the context memory of containers that are being removed.
	leaving int64
	d       int    // D as the policy knows it
	lost    string // why the device cannot be used, empty when it can
}

func newDevice(word gpu.Device, s GPUSettings) (dev *device, err error) {
	dev = &device{Device: word}
	if dev.pool, err = gpu.NewPool(s.Pool); err != nil {
		return nil, err
	}
	if dev.ledger, err = gpu.NewLedger(gpu.LedgerConfig{Capacity: word.MemoryBytes, AckTimeout: s.ackTimeout()}); err != nil {
		return nil, err
	}
	if dev.tokens, err = gpu.NewTokens(s.tokens(word)); err != nil {
		return nil, err
	}
	dev.d = dev.tokens.D()
	return dev, nil
}

// Observe takes what devices show, from any goroutine and at any time. It does
// not block: a reading that comes while the dispatcher has too much to do is
// dropped, for a newer one follows.
func (iv *Invoker) Observe(readings []gpu.Reading) {
	select {
	case iv.dispatch.events <- observed{readings}:
	default:
	}
}

// DeviceLost tells that a device cannot be used any more and why. Its work is
// ended, what is queued goes to other devices or waits.
func (iv *Invoker) DeviceLost(index int, why string) { iv.tell(deviceLost{index, why}) }

// DeviceBack tells that a lost device can be used again.
func (iv *Invoker) DeviceBack(index int) { iv.tell(deviceBack{index}) }

// observed is what devices show at a moment.
type observed struct{ readings []gpu.Reading }

func (e observed) apply(d *dispatcher, now time.Duration) {
	for _, r := range e.readings {
		if dev := d.gpus.known(r.Device); dev != nil && dev.lost == "" {
			d.gpus.observe(now, dev, r)
		}
	}
}

type deviceLost struct {
	index int
	why   string
}

func (e deviceLost) apply(d *dispatcher, now time.Duration) {
	dev := d.gpus.known(e.index)
	if dev == nil || dev.lost != "" {
		return
	}
	if dev.lost = e.why; dev.lost == "" {
		dev.lost = "no reason given"
	}
	d.log.Error("device lost", keyDevice, dev.String(), "reason", dev.lost)
	d.gpus.lose(now, dev)
}

type deviceBack struct{ index int }

func (e deviceBack) apply(d *dispatcher, now time.Duration) {
	dev := d.gpus.known(e.index)
	if dev == nil || dev.lost == "" {
		return
	}
	d.log.Info("device is back", keyDevice, dev.String(), "was", dev.lost)
	dev.lost = ""
	d.gpus.policy.AddDevice(now, dev.Index, dev.d)
}

// known finds a device by its index, nil if there is none such.
func (l *gpuLane) known(index int) *device {
	if l == nil || index < 0 || index >= len(l.devices) {
		return nil
	}
	return l.devices[index]
}

// observe takes a reading of a device.
func (l *gpuLane) observe(now time.Duration, dev *device, r gpu.Reading) {
	if r.Utilization >= 0 {
		dev.tokens.Sample(now, r.Utilization)
	}
	l.adopt(now, dev)
}

// adopt lets the policy grant what D is now.
func (l *gpuLane) adopt(now time.Duration, dev *device) {
	if n := dev.tokens.D(); n != dev.d {
		dev.d = n
		l.policy.SetTokens(now, dev.Index, n)
	}
}

// lose takes a device away: nothing more is granted there, and its containers
// go.
func (l *gpuLane) lose(now time.Duration, dev *device) {
	l.policy.RemoveDevice(now, dev.Index)
	for _, b := range l.idle() {
		if b.gpu.device == dev {
			l.dispose(now, b)
		}
	}
}
