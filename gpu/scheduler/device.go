package scheduler

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// device is one GPU with its pool, ledger and tokens.
type device struct {
	gpu.Device
	pool       *gpu.Pool[*revision]
	ledger     *gpu.Ledger
	tokens     *gpu.Tokens
	foreign    gpu.Foreign
	speed      linkSpeed
	containers []*container // not gone, in the order of their making
	d          int          // D as the policy knows it

	inFlight int    // tokens given
	lost     string // why it cannot be used, empty when it can
	losses   [losses]string
	sampled  bool        // its utilization is read
	used     int64       // as last read, negative while it is not known
	orders   []gpu.Order // of the ledger, to be handed out

	running []*run        // launched, and not over
	counted time.Duration // their shared time is summed up to here
}

func newDevice(word gpu.Device, cfg *Config, flags *gpu.EvictFlags) (dev *device, err error) {
	dev = &device{Device: word, used: -1, speed: linkSpeed{link: cfg.Link, applied: cfg.Link.BytesPerSecond}}
	if dev.pool, err = gpu.NewPool[*revision](cfg.Pool); err != nil {
		return nil, err
	}
	headroom := cfg.Headroom
	if cfg.SwapEachRun {
		headroom = word.MemoryBytes // nothing that may be evicted stays
	}
	ledger := gpu.LedgerConfig{Capacity: word.MemoryBytes, Headroom: headroom, AckTimeout: cfg.AckTimeout, EvictFlags: flags}
	if dev.ledger, err = gpu.NewLedger(ledger); err != nil {
		return nil, err
	}
	tokens := cfg.Tokens
	tokens.Max = word.MaxTokens(tokens.Max)
	if dev.tokens, err = gpu.NewTokens(tokens); err != nil {
		return nil, err
	}
	dev.d = dev.tokens.D()
	return dev, nil
}

// sampled takes a reading of a device.
func (l *Scheduler) sampled(dev *device, e Event) {
	dev.used = e.Used
	if e.Utilization >= 0 {
		dev.sampled = true
		dev.tokens.Sample(l.now, e.Utilization)
		l.applyTokens(dev)
	}
	// A driver may show memory as used that it has moved to the host: it keeps
	// the emptied pages and gives them to the next allocation. So what is on
	// the host is accounted for, too.
	t := dev.ledger.Totals()
	if n := dev.foreign.Read(e.Used, t.Allocated+t.Context, dev.ledger.Quiet()); n != t.Foreign {
		dev.ledger.SetForeign(l.now, n)
	}
}

// applyTokens lets the policy grant what D is now.
func (l *Scheduler) applyTokens(dev *device) {
	if n := dev.tokens.D(); n != dev.d && dev.lost == "" {
		dev.d = n
		l.policy.SetTokens(l.now, dev.Index, n)
	}
}

// deviceLost takes the news that a device, or what it needs, is away.
func (l *Scheduler) deviceLost(dev *device, e Event) {
	if e.Of >= losses || dev.losses[e.Of] != "" {
		return
	}
	dev.losses[e.Of] = cmp.Or(e.Why, "no reason given")
	if dev.lost == "" {
		l.lose(dev, dev.losses[e.Of])
	}
}

// deviceBack ends one loss of a device.
func (l *Scheduler) deviceBack(dev *device, e Event) {
	if e.Of >= losses || dev.losses[e.Of] == "" {
		return
	}
	dev.losses[e.Of] = ""
	if dev.lost = cmp.Or(dev.losses[:]...); dev.lost != "" {
		return
	}
	// Its old containers are gone or on their way out.
	l.lost--
	dev.d = dev.tokens.D()
	l.policy.AddDevice(l.now, dev.Index, dev.d)
}

// lose takes a device away: nothing more is granted there, what was granted
// and has not begun goes back to its queue, and every container goes. What runs is
// ended outside.
func (l *Scheduler) lose(dev *device, why string) {
	dev.lost = why
	l.lost++
	l.policy.RemoveDevice(l.now, dev.Index)
	var back []*run
	for _, b := range dev.containers {
		l.fail(b)
		back = b.unlaunched(back)
	}
	l.requeueAll(back)
	for _, b := range dev.containers {
		if len(b.runs) == 0 && !b.removing {
			l.remove(b)
		}
		l.cancelMove(b)
	}
	dev.foreign, dev.used = gpu.Foreign{}, -1
	dev.ledger.SetForeign(l.now, 0)
	l.startDeviceTimeouts()
}

// enter takes a run among those that share the device.
func (dev *device) enter(now time.Duration, r *run) {
	dev.count(now)
	dev.running = append(dev.running, r)
}

// leave takes a run out of those that share the device.
func (dev *device) leave(now time.Duration, r *run) {
	dev.count(now)
	dev.running = slices.DeleteFunc(dev.running, func(other *run) bool { return other == r })
}

func (dev *device) count(now time.Duration) {
	elapsed := now - dev.counted
	dev.counted = now
	for _, r := range dev.running {
		r.shared += elapsed * time.Duration(len(dev.running))
	}
}

// company is among how many runs a run shared its device, itself included;
// false if that changed for more than a moment.
func (r *run) company(now time.Duration) (k int, ok bool) {
	mean := float64(r.shared) / float64(max(now-r.launched, 1))
	whole := math.Round(mean)
	return int(whole), whole >= 1 && math.Abs(mean-whole) < companyJitter
}

// companyJitter is by how much the mean company may differ from a number of
// runs: one that ends while the next begins leaves a gap.
const companyJitter = 0.1
