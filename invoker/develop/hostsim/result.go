package hostsim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// Result is what a run measured.
type Result struct {
	Ended, Failed int // activations; the scheduler failed the latter
	Creations     int // messages, retries included
	Refused       int // of them

	Mean, P99        time.Duration // from arrival to end
	AtScheduler      time.Duration // mean time until an activation is pulled
	MostAtScheduler  time.Duration
	Idle             time.Duration // the longest of Call.Idle
	Warm             float64       // share of starts
	HostsPerFunction float64       // that ran it
	Service          []float64     // seconds of device time by function, while activations arrived
	Asked            []float64     // the same as they asked for it, warm
	Calls            []Call
}

// Alone simulates each host by itself with its part of the functions, in their order:
// where those have the same demand it is the same load on each host.
func Alone(cfg Config) ([]*sim.Result, error) {
	return byHomes(cfg, func(function int) int { return function * cfg.Hosts / len(cfg.Workload.Functions) })
}

// Classic is Alone with functions at random hosts, which is where classic mode's load
// balancer has their homes, by a hash of their names. It would pass on what its home has
// no memory for; here all stay at home.
func Classic(cfg Config) ([]*sim.Result, error) {
	random := rand.New(rand.NewPCG(cfg.Seed, 2))
	return byHomes(cfg, func(int) int { return random.IntN(cfg.Hosts) })
}

// byHomes simulates each host by itself with the functions that have their home there,
// without a scheduler.
func byHomes(cfg Config, home func(function int) int) ([]*sim.Result, error) {
	w := cfg.Workload
	p := cfg.Server
	p.Warmup = cfg.Warmup
	parts := make([]sim.Workload, cfg.Hosts)
	homes, at := make([]int, len(w.Functions)), make([]int32, len(w.Functions))
	for i, f := range w.Functions {
		homes[i] = home(i)
		part := &parts[homes[i]]
		at[i] = int32(len(part.Functions))
		part.Functions = append(part.Functions, f)
	}
	for _, a := range w.Arrivals {
		part := &parts[homes[a.Function]]
		a.Function = at[a.Function]
		part.Arrivals = append(part.Arrivals, a)
	}
	var all []*sim.Result
	for n, part := range parts {
		if len(part.Arrivals) == 0 {
			continue
		}
		part.Name, part.Horizon = w.Name, w.Horizon
		r, err := sim.Run(&part, p)
		if err != nil {
			return nil, fmt.Errorf("host %d by itself: %w", n, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// MeanOf is the mean latency of several hosts, and their share of warm starts.
func MeanOf(all []*sim.Result) (mean time.Duration, warm float64) {
	sum, n, cold, starts := 0.0, 0, 0, 0
	for _, r := range all {
		sum += r.Latency.Mean * float64(r.Latency.Count)
		n += r.Latency.Count
		cold += r.Starts.Cold + r.Starts.BusyCold
		starts += r.Starts.Total()
	}
	return time.Duration(sum / float64(n) * float64(time.Millisecond)), 1 - float64(cold)/float64(starts)
}

// Fairness is Jain's index of the device time that functions have had, as shares of
// what they asked for: of functions with equal demand one draws more than another.
func (r *Result) Fairness() float64 {
	var shares []float64
	for i, asked := range r.Asked {
		if asked > 0 {
			shares = append(shares, r.Service[i]/asked)
		}
	}
	return jain(shares)
}

func jain(x []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / squares / float64(len(x))
}

func (s *simulation) finish() *Result {
	r := &s.result
	r.Calls, r.Asked = s.calls, make([]float64, len(s.queues))
	for _, a := range s.cfg.Workload.Arrivals {
		if a.At >= s.cfg.Warmup {
			r.Asked[a.Function] += s.cfg.Workload.Work(a).Seconds()
		}
	}
	var all []time.Duration
	var sum, before time.Duration
	ran := map[[2]int]bool{}
	functions := map[int]bool{}
	for _, c := range r.Calls {
		if c.Ended == 0 || c.At < s.cfg.Warmup {
			continue
		}
		all = append(all, c.Ended-c.At)
		sum += c.Ended - c.At
		before += c.Pulled - c.At
		r.MostAtScheduler = max(r.MostAtScheduler, c.Pulled-c.At)
		r.Idle = max(r.Idle, c.Idle)
		if c.Found.Warm() {
			r.Warm++
		}
		ran[[2]int{c.Function, c.Host}], functions[c.Function] = true, true
	}
	if n := len(all); n > 0 {
		slices.Sort(all)
		r.Mean, r.AtScheduler = sum/time.Duration(n), before/time.Duration(n)
		r.P99 = all[min(n*99/100, n-1)]
		r.Warm /= float64(n)
		r.HostsPerFunction = float64(len(ran)) / float64(len(functions))
	}
	return r
}
