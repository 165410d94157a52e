package invoker

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// device is one GPU with its books.
type device struct {
	gpu.Device
	pool    *gpu.Pool
	ledger  *gpu.Ledger
	tokens  *gpu.Tokens
	foreign gpu.Foreign
	d       int    // D as the policy knows it
	lost    string // why the device cannot be used, empty when it can
	losses  [losses]string
	sampled bool        // its utilization is read
	used    int64       // as last read, negative while nobody has said
	orders  []gpu.Order // of the ledger, to be handed out

	running []*grant      // launched and not left
	counted time.Duration // their shared time is summed up to here
}

func newDevice(word gpu.Device, s GPUSettings) (dev *device, err error) {
	dev = &device{Device: word, used: -1}
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
func (iv *Invoker) DeviceLost(index int, why string) { iv.tell(deviceLost{index, ofDevice, why}) }

// DeviceBack tells that a lost device can be used again.
func (iv *Invoker) DeviceBack(index int) { iv.tell(deviceBack{index, ofDevice}) }

// DaemonLost tells that the daemon by which containers share a device is away,
// DaemonBack that it serves again. A device is used when both it and its daemon
// are there.
func (iv *Invoker) DaemonLost(index int, why string) { iv.tell(deviceLost{index, ofDaemon, why}) }

// DaemonBack is the end of DaemonLost.
func (iv *Invoker) DaemonBack(index int) { iv.tell(deviceBack{index, ofDaemon}) }

// loss is what is missing of a lost device.
type loss uint8

const (
	ofDevice loss = iota
	ofDaemon
	losses
)

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
	of    loss
	why   string
}

func (e deviceLost) apply(d *dispatcher, now time.Duration) {
	dev := d.gpus.known(e.index)
	if dev == nil || dev.losses[e.of] != "" {
		return
	}
	dev.losses[e.of] = cmp.Or(e.why, "no reason given")
	if dev.lost != "" {
		return // by the other loss
	}
	d.log.Error("device lost", keyDevice, dev.String(), "reason", dev.losses[e.of])
	d.gpus.lose(now, dev, dev.losses[e.of])
}

type deviceBack struct {
	index int
	of    loss
}

func (e deviceBack) apply(d *dispatcher, now time.Duration) {
	dev := d.gpus.known(e.index)
	if dev == nil || dev.losses[e.of] == "" {
		return
	}
	dev.losses[e.of] = ""
	if why := cmp.Or(dev.losses[:]...); why != "" {
		dev.lost = why
		return
	}
	d.log.Info("device is back", keyDevice, dev.String(), "was", dev.lost)
	d.gpus.regain(now, dev)
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
	dev.used = r.Used
	if r.Utilization >= 0 {
		dev.sampled = true
		dev.tokens.Sample(now, r.Utilization)
		l.d.metrics.gpuUtilization.WithLabelValues(dev.String()).Set(dev.tokens.Utilization())
		l.adopt(now, dev)
	}
	// A driver may show memory as used that it has moved to the host: it keeps
	// the emptied places and gives them to whoever comes next. So what is on
	// the host is accounted for, too.
	t := dev.ledger.Totals()
	if n := dev.foreign.Read(r.Used, t.Held+t.Context, dev.ledger.Quiet()); n != t.Foreign {
		dev.ledger.SetForeign(now, n)
		l.touchMisfits(now)
	}
}

// adopt lets the policy grant what D is now.
func (l *gpuLane) adopt(now time.Duration, dev *device) {
	if n := dev.tokens.D(); n != dev.d && dev.lost == "" {
		dev.d = n
		l.policy.SetTokens(now, dev.Index, n)
	}
}

// lose takes a device away: nothing more is granted there, what was granted
// and has not begun goes back to its queue, what runs is ended, and every
// container goes.
func (l *gpuLane) lose(now time.Duration, dev *device, why string) {
	dev.lost = why
	l.d.metrics.lost(dev, true)
	l.policy.RemoveDevice(now, dev.Index)
	var back []*run
	boxes := l.on(dev)
	for _, b := range boxes {
		b.die(errDeviceLost)
		l.shut(b)
		back = append(back, b.gpu.unlaunched()...)
	}
	l.takeAllBack(now, back)
	for _, b := range boxes {
		if len(b.gpu.runs) == 0 && !b.gpu.doomed {
			l.dispose(now, b)
		}
		b.gpu.errand.stop()
	}
	dev.foreign, dev.used = gpu.Foreign{}, -1
	dev.ledger.SetForeign(now, 0)
	l.touchMisfits(now)
}

// regain makes a lost device usable again. Its old containers are gone or on
// their way out.
func (l *gpuLane) regain(now time.Duration, dev *device) {
	dev.lost, dev.d = "", dev.tokens.D()
	l.d.metrics.lost(dev, false)
	l.policy.AddDevice(now, dev.Index, dev.d)
}

// on lists the containers of a device by name.
func (l *gpuLane) on(dev *device) (out []*box) {
	for _, b := range l.boxes {
		if b.gpu.device == dev {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *box) int { return cmp.Compare(a.name, b.name) })
	return out
}

// yield gives idle containers up for a reservation that even moving all idle
// memory out would not let stand: a context stays on the device as long as its
// container lives. When that does not help either, and nothing runs or leaves,
// nor is a container about to be idle, the reservation waits for nothing that
// will come: the run goes back to its queue, where a free device may serve it.
//
// It reports whether a run went back.
func (l *gpuLane) yield(now time.Duration, dev *device) (back bool) {
	for dev.ledger.Shortfall() > 0 && l.sacrifice(now, dev) {
	}
	if dev.ledger.Shortfall() == 0 || dev.ledger.Running() || l.emptying(dev) {
		return false
	}
	var hopeless []*run
	for _, b := range l.on(dev) {
		hopeless = append(hopeless, b.gpu.waiting...)
	}
	l.takeAllBack(now, hopeless)
	return len(hopeless) > 0
}

// emptying tells whether a container of the device will soon have nothing more
// in it than it has now: logs are being read that no token is held for.
func (l *gpuLane) emptying(dev *device) bool {
	for _, b := range l.boxes {
		if b.gpu.device == dev && b.gpu.inside() > 0 {
			return true
		}
	}
	return false
}

// enter takes a run among those that share the device.
func (dev *device) enter(now time.Duration, g *grant) {
	dev.count(now)
	dev.running = append(dev.running, g)
}

// leave takes a run out of those that share the device.
func (dev *device) leave(now time.Duration, g *grant) {
	dev.count(now)
	dev.running = slices.DeleteFunc(dev.running, func(other *grant) bool { return other == g })
}

func (dev *device) count(now time.Duration) {
	elapsed := now - dev.counted
	dev.counted = now
	for _, g := range dev.running {
		g.shared += elapsed * time.Duration(len(dev.running))
	}
}

// company is among how many runs a run shared its device, itself included;
// false if that changed for more than a moment.
func (g *grant) company(now time.Duration) (k int, ok bool) {
	mean := float64(g.shared) / float64(max(now-g.launched, 1))
	whole := math.Round(mean)
	return int(whole), whole >= 1 && math.Abs(mean-whole) < companyJitter
}

// companyJitter is by how much the mean company may differ from a number of
// runs: one that ends while the next begins leaves a gap.
const companyJitter = 0.1
