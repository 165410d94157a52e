package scheduler

import (
	"cmp"
	"math"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// device is one GPU with its containers, ledger and tokens.
type device struct {
	gpu.Device
	ledger     *gpu.Ledger
	tokens     *gpu.Tokens
	foreign    gpu.ExternalUsage
	speed      linkSpeed
	containers []*container // not gone, in the order of their creation
	kept       int          // of containers: those that are not being removed
	idle       int          // of containers: those without a run
	d          int          // D as the policy has it

	inFlight int    // tokens given
	lost     string // why it cannot be used, empty when it can
	losses   [losses]string
	sampled  bool       // its utilization is read
	used     int64      // as last read, negative while it is not known
	usable   int64      // the memory that containers can have
	moves    []gpu.Move // of the ledger, to be ordered

	running []*run        // launched, and not over
	counted time.Duration // their shared time is summed up to here
}

func newDevice(d gpu.Device, cfg *Config) (dev *device, err error) {
	dev = &device{Device: d, used: -1, speed: linkSpeed{link: cfg.Link, applied: cfg.Link.BytesPerSecond}}
	headroom := cfg.Headroom
	if cfg.SwapEachRun {
		headroom = d.MemoryBytes // nothing that is evictable stays
	}
	ledger := gpu.LedgerConfig{Capacity: d.MemoryBytes, Headroom: headroom, AckTimeout: cfg.AckTimeout, AskAgain: cfg.AckTimeout / maxAsked}
	if dev.ledger, err = gpu.NewLedger(ledger); err != nil {
		return nil, err
	}
	tokens := cfg.Tokens
	tokens.Max = d.MaxTokens(tokens.Max)
	if dev.tokens, err = gpu.NewTokens(tokens); err != nil {
		return nil, err
	}
	dev.d = dev.tokens.D()
	return dev, nil
}

// sampled takes a reading of a device.
func (s *Scheduler) sampled(dev *device, e Event) {
	dev.used = e.Used
	if e.Utilization >= 0 {
		dev.sampled = true
		dev.tokens.Sample(s.now, e.Utilization)
		s.applyTokens(dev)
	}
	t := dev.ledger.Totals()
	if n := dev.foreign.Read(e.Used, t.Resident+t.Context, t.MovedOut, dev.ledger.Quiet()); n != t.Foreign {
		dev.ledger.SetForeign(s.now, n)
		s.resized(dev)
	}
}

// applyTokens passes the current D to the policy.
func (s *Scheduler) applyTokens(dev *device) {
	if n := dev.tokens.D(); n != dev.d && dev.lost == "" {
		dev.d = n
		s.policy.SetTokens(s.now, dev.Index, n)
	}
}

// deviceLost handles the loss of a device or of its daemon.
func (s *Scheduler) deviceLost(dev *device, e Event) {
	if e.Of >= losses || dev.losses[e.Of] != "" {
		return
	}
	dev.losses[e.Of] = cmp.Or(e.Why, "no reason given")
	if dev.lost == "" {
		s.lose(dev, dev.losses[e.Of])
	}
}

// deviceBack ends one loss of a device.
func (s *Scheduler) deviceBack(dev *device, e Event) {
	if e.Of >= losses || dev.losses[e.Of] == "" {
		return
	}
	dev.losses[e.Of] = ""
	if dev.lost = cmp.Or(dev.losses[:]...); dev.lost != "" {
		return
	}
	// Its old containers are gone or being removed.
	s.lost--
	dev.d = dev.tokens.D()
	s.resized(dev)
	s.policy.AddDevice(s.now, dev.Index, dev.d)
}

// lose takes a device out of service. Nothing more is granted on the device. Granted runs that
// have not begun go back to their queues, and every container is removed. Running ones end
// with their own events.
func (s *Scheduler) lose(dev *device, why string) {
	dev.lost = why
	s.lost++
	s.shrunk = s.now
	s.policy.RemoveDevice(s.now, dev.Index)
	var queued []*run
	for _, c := range dev.containers {
		c.failed = true
		queued = append(queued, c.unlaunched()...)
	}
	s.requeueAll(queued)
	for _, c := range dev.containers {
		if len(c.runs) == 0 && !c.removing {
			s.remove(c)
		}
		s.cancelMove(c)
	}
	dev.foreign, dev.used = gpu.ExternalUsage{}, -1
	dev.ledger.SetForeign(s.now, 0)
	s.resized(dev)
}

// enter adds a run to the runs that share the device.
func (dev *device) enter(now time.Duration, r *run) {
	dev.count(now)
	dev.running = append(dev.running, r)
}

// leave removes a run from the runs that share the device.
func (dev *device) leave(now time.Duration, r *run) {
	dev.count(now)
	dev.running = without(dev.running, r)
}

func (dev *device) count(now time.Duration) {
	elapsed := now - dev.counted
	dev.counted = now
	for _, r := range dev.running {
		r.shared += elapsed * time.Duration(len(dev.running))
	}
}

// concurrency is how many runs shared the device with a run throughout, itself
// included; false if that number changed for more than a moment.
func (r *run) concurrency(now time.Duration) (k int, ok bool) {
	mean := float64(r.shared) / float64(max(now-r.launched, 1))
	whole := math.Round(mean)
	return int(whole), whole >= 1 && math.Abs(mean-whole) < concurrencyJitter
}

// concurrencyJitter is the allowed difference between the mean concurrency and a whole number
// of runs. A run that ends while the next begins leaves a gap.
const concurrencyJitter = 0.1
