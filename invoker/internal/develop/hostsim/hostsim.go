// Package hostsim simulates several GPU hosts under one OpenWhisk scheduler, in virtual
// time. Each host runs the code with which an invoker decides in scheduler mode: its
// slots (invoker/internal/pull/slot) and its GPU scheduler, around the server of sched/sim. The
// scheduler consists of the queues of the tests (memoryqueue) and OpenWhisk's choice of
// hosts. A run depends only on its configuration.
//
// Hosts have unlimited memory, and nothing fails.
package hostsim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
	"github.com/gpuwhisk/gpuwhisk/sched"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// One-way delays of messages.
const (
	etcdTime  = 2 * time.Millisecond
	kafkaTime = 5 * time.Millisecond
	callTime  = time.Millisecond / 2
)

// Config configures a simulation.
type Config struct {
	Hosts    int
	Server   sim.Params // of each host
	Workload *sim.Workload
	Rule     slot.GPU
	// Limit is the most containers of a namespace. OpenWhisk's default is 30.
	Limit int
	// PauseGrace is whisk.container-proxy.timeouts.pause-grace.
	PauseGrace time.Duration
	// Random makes the scheduler ignore warmed keys.
	Random bool
	Seed   uint64
	// Warmup: activations that arrive earlier are served but not measured.
	Warmup time.Duration
}

// Call is the outcome of an activation.
type Call struct {
	Function   int
	Host       int
	At         time.Duration // arrival at the scheduler
	Pulled     time.Duration
	Ended      time.Duration // 0: never
	Found      sched.StartKind
	Idle       time.Duration // time at the scheduler while its host could have started it
	idleBefore []time.Duration
}

// simulation is the state of a run.
type simulation struct {
	cfg    Config
	now    time.Duration
	events sim.Queue[event]
	seq    int
	random *rand.Rand
	hosts  []*host
	queues []*queue
	calls  []Call
	result Result

	jobs   map[string]*job
	claims map[key]bool
	warmed []key // sorted by their text
	made   int
}

// Run simulates a workload to its end.
func Run(cfg Config) (*Result, error) {
	s := &simulation{
		cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 1)), calls: make([]Call, len(cfg.Workload.Arrivals)),
		jobs: map[string]*job{}, claims: map[key]bool{},
	}
	for n := range cfg.Hosts {
		h, err := newHost(s, n)
		if err != nil {
			return nil, err
		}
		s.hosts = append(s.hosts, h)
	}
	for n := range cfg.Workload.Functions {
		s.queues = append(s.queues, s.newQueue(n))
	}
	for i, a := range cfg.Workload.Arrivals {
		s.calls[i] = Call{Function: int(a.Function), At: a.At}
	}
	s.after(0, s.tick)
	if err := s.loop(); err != nil {
		return nil, fmt.Errorf("at %v: %w", s.now, err)
	}
	return s.finish(), nil
}

// loop processes one event time after another, until all activations have ended.
func (s *simulation) loop() error {
	arrived, served, warm := 0, false, false
	var before []float64 // service at the start of the measurement
	measure := func() {
		served = true
		s.result.Service = s.service()
		for i := range before {
			s.result.Service[i] -= before[i]
		}
	}
	for s.result.Ended+s.result.Failed < len(s.calls) {
		at := s.events[0].due // there is always a pending tick
		if arrived < len(s.calls) {
			at = min(at, s.calls[arrived].At)
		}
		for _, h := range s.hosts {
			at = min(at, h.next())
		}
		if at > s.cfg.Workload.Horizon+s.cfg.Server.Drain {
			return fmt.Errorf("%d of %d activations are left", len(s.calls)-s.result.Ended-s.result.Failed, len(s.calls))
		}
		if !warm && at >= s.cfg.Warmup {
			warm = true
			before = s.service()
		}
		if !served && at >= s.cfg.Workload.Horizon {
			measure()
		}
		s.pass(max(at, s.now))
		for ; arrived < len(s.calls) && s.calls[arrived].At <= s.now; arrived++ {
			s.arrive(arrived)
		}
		for len(s.events) > 0 && s.events[0].due <= s.now {
			heap.Pop(&s.events).(event).run()
		}
		for _, h := range s.hosts {
			if err := h.step(); err != nil {
				return fmt.Errorf("host %d: %w", h.n, err)
			}
		}
	}
	if !served {
		measure()
	}
	return nil
}

// pass advances the time.
func (s *simulation) pass(to time.Duration) {
	for _, h := range s.hosts {
		if h.server.Idle() {
			h.idle += to - s.now
		}
	}
	s.now = to
}

// service returns the device time of each function.
func (s *simulation) service() []float64 {
	all := make([]float64, len(s.queues))
	for _, h := range s.hosts {
		for n := range all {
			all[n] += h.server.Service(n).Seconds()
		}
	}
	return all
}

// after schedules a call.
func (s *simulation) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.events, event{s.now + d, s.seq, do})
}

type event struct {
	due time.Duration
	seq int
	run func()
}

// Before orders events by time, and simultaneous events by their scheduling.
func (e event) Before(f event) bool { return e.due < f.due || e.due == f.due && e.seq < f.seq }
