package hostsim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/forward"
	"github.com/gpuwhisk/gpuwhisk/sched"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// The delays of the reports by which forwarders know GPU hosts in classic mode.
const (
	pingEvery = time.Second
	// pingDelay is the longest time that a ping waits at the broker.
	pingDelay = time.Second / 2
)

// ForwardConfig configures a simulation of classic mode: GPU hosts that get their
// activations from forwarders.
type ForwardConfig struct {
	Hosts    int
	Server   sim.Params // of each host
	Workload *sim.Workload
	Seed     uint64
	// Warmup: activations that arrive earlier are served but not measured.
	Warmup time.Duration
}

// ForwardResult holds the measurements of a run.
type ForwardResult struct {
	Mean, P99        time.Duration // from arrival to end
	Warm             float64       // share of starts
	HostsPerFunction float64
}

// Copies builds a workload for several hosts from a workload for each. Every copy has
// its own functions, in its own namespace.
func Copies(n int, build func(copy int) (*sim.Workload, error)) (*sim.Workload, error) {
	all := &sim.Workload{}
	for i := range n {
		w, err := build(i)
		if err != nil {
			return nil, err
		}
		first := int32(len(all.Functions))
		for _, f := range w.Functions {
			f.Namespace = "tenant" + strconv.Itoa(i)
			all.Functions = append(all.Functions, f)
		}
		for _, a := range w.Arrivals {
			a.Function += first
			all.Arrivals = append(all.Arrivals, a)
		}
		all.Name, all.Horizon = w.Name, max(all.Horizon, w.Horizon)
	}
	slices.SortStableFunc(all.Arrivals, func(a, b sim.Arrival) int { return int(a.At - b.At) })
	return all, nil
}

// forwarding is the state of a run.
type forwarding struct {
	cfg    ForwardConfig
	random *rand.Rand
	now    time.Duration
	table  *forward.Table
	hosts  []*gpuHost
	due    sim.Queue[dueHost] // hosts by their next event, including outdated entries
	events sim.Queue[event]
	seq    int
	calls  []forwardedCall
	ended  int
}

type gpuHost struct {
	*sim.Server
	functions map[int32]int // the server's numbers of functions
	calls     []int         // calls, by the server's numbers of activations
	version   int           // of the newest entry in due
}

type dueHost struct {
	due           time.Duration
	host, version int
}

// Before orders hosts by their next event.
func (d dueHost) Before(e dueHost) bool { return d.due < e.due || d.due == e.due && d.host < e.host }

type forwardedCall struct {
	host  int
	ended time.Duration
	found sched.StartKind
}

// Forward simulates a workload to its end.
func Forward(cfg ForwardConfig) (*ForwardResult, error) {
	s := &forwarding{
		cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 3)),
		calls: make([]forwardedCall, len(cfg.Workload.Arrivals)),
	}
	var ids []int
	for n := range cfg.Hosts {
		server, err := sim.OpenServer(cfg.Workload.Horizon, cfg.Server)
		if err != nil {
			return nil, err
		}
		s.hosts = append(s.hosts, &gpuHost{Server: server, functions: map[int32]int{}})
		ids = append(ids, n)
	}
	s.table = forward.New(ids...)
	for n := range cfg.Hosts {
		s.report(n, 0)
		s.after(time.Duration(s.random.Int64N(int64(pingEvery))), func() { s.ping(n) })
	}
	if err := s.loop(); err != nil {
		return nil, fmt.Errorf("at %v: %w", s.now, err)
	}
	return s.result(), nil
}

func (s *forwarding) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.events, event{s.now + d, s.seq, do})
}

// ping sends a host's report. The forwarders read it after a delay.
func (s *forwarding) ping(n int) {
	backlog := s.hosts[n].Backlog()
	s.after(time.Duration(s.random.Int64N(int64(pingDelay))), func() { s.report(n, backlog) })
	s.after(pingEvery, func() { s.ping(n) })
}

func (s *forwarding) report(n int, backlog time.Duration) {
	s.table.Reported(s.now, forward.Report{Invoker: n, Enabled: true, GPU: true, Backlog: backlog})
}

func (s *forwarding) loop() error {
	arrivals := s.cfg.Workload.Arrivals
	for arrived := 0; s.ended < len(arrivals); {
		at := s.events[0].due // there is always a pending ping
		if arrived < len(arrivals) {
			at = min(at, arrivals[arrived].At)
		}
		if len(s.due) > 0 {
			at = min(at, s.due[0].due)
		}
		if at > s.cfg.Workload.Horizon+s.cfg.Server.Drain {
			return fmt.Errorf("%d of %d activations are left", len(arrivals)-s.ended, len(arrivals))
		}
		s.now = max(at, s.now)
		for len(s.events) > 0 && s.events[0].due <= s.now {
			heap.Pop(&s.events).(event).run()
		}
		for len(s.due) > 0 && s.due[0].due <= s.now {
			d := heap.Pop(&s.due).(dueHost)
			if h := s.hosts[d.host]; d.version == h.version {
				if err := s.step(d.host); err != nil {
					return err
				}
			}
		}
		for ; arrived < len(arrivals) && arrivals[arrived].At <= s.now; arrived++ {
			if err := s.place(arrived); err != nil {
				return err
			}
		}
	}
	return nil
}

// place assigns an activation to a host.
func (s *forwarding) place(i int) error {
	a := s.cfg.Workload.Arrivals[i]
	f := s.cfg.Workload.Functions[a.Function]
	n, _ := s.table.Choose(s.now, f.Namespace, f.Name, -1) // all hosts are live
	s.calls[i].host = n
	h := s.hosts[n]
	local, known := h.functions[a.Function]
	if !known {
		local = h.AddFunction(f)
		h.functions[a.Function] = local
	}
	a.Function = int32(local)
	h.calls = append(h.calls, i)
	return s.step(n, h.AddActivation(a))
}

// step processes the due events of a host, and submits activations to it.
func (s *forwarding) step(n int, activations ...int) error {
	h := s.hosts[n]
	ended, _, err := h.Submit(s.now, activations...)
	if err != nil {
		return fmt.Errorf("host %d: %w", n, err)
	}
	for _, local := range ended {
		c := &s.calls[h.calls[local]]
		c.found, _, c.ended = h.Outcome(local)
		s.ended++
	}
	h.version++
	if at, ok := h.Next(); ok {
		heap.Push(&s.due, dueHost{at, n, h.version})
	}
	return nil
}

func (s *forwarding) result() *ForwardResult {
	r := &ForwardResult{}
	var all []time.Duration
	var sum time.Duration
	ran, functions := map[[2]int32]bool{}, map[int32]bool{}
	for i, c := range s.calls {
		a := s.cfg.Workload.Arrivals[i]
		if a.At < s.cfg.Warmup {
			continue
		}
		all = append(all, c.ended-a.At)
		sum += c.ended - a.At
		if c.found.Warm() {
			r.Warm++
		}
		ran[[2]int32{a.Function, int32(c.host)}], functions[a.Function] = true, true
	}
	if n := len(all); n > 0 {
		slices.Sort(all)
		r.Mean, r.P99, r.Warm = sum/time.Duration(n), all[min(n*99/100, n-1)], r.Warm/float64(n)
		r.HostsPerFunction = float64(len(ran)) / float64(len(functions))
	}
	return r
}
