package hostsim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// Result holds the measurements of a run.
type Result struct {
	Ended, Failed int // activations; the scheduler failed the latter
	Creations     int // messages, retries included
	Refused       int // refused creations

	Mean, P99        time.Duration // from arrival to end
	AtScheduler      time.Duration // mean time until an activation is pulled
	MostAtScheduler  time.Duration
	Idle             time.Duration // the longest Call.Idle
	Warm             float64       // share of starts
	HostsPerFunction float64       // hosts that ran a function
	Service          []float64     // seconds of device time by function, while activations arrived
	Asked            []float64     // warm device time of the demand, by function
	Calls            []Call
}

// Alone simulates each host separately with its part of the functions, in their order.
// If the functions have the same demand, the hosts have the same load.
func Alone(cfg Config) ([]*sim.Result, error) {
	return byHomes(cfg, func(function int) int { return function * cfg.Hosts / len(cfg.Workload.Functions) })
}

// Classic is Alone with functions at random hosts, like the homes in classic mode, which
// the load balancer chooses by a hash of the names. The load balancer would send
// activations elsewhere if the home lacks memory; here all stay at home.
func Classic(cfg Config) ([]*sim.Result, error) {
	random := rand.New(rand.NewPCG(cfg.Seed, 2))
	return byHomes(cfg, func(int) int { return random.IntN(cfg.Hosts) })
}

// byHomes simulates each host separately with the functions of that home, without a
// scheduler.
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

// MeanOf returns the mean latency of several hosts, and their share of warm starts.
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

// Fairness returns Jain's index over the device time of functions, as shares of their
// demand, because functions with an equal rate may draw different runs.
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
