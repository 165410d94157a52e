package hostsim

import (
	"fmt"
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

// Alone simulates each host by itself with its part of the functions, without a
// scheduler: as classic mode would serve what the hosts are asked for all together.
func Alone(cfg Config) ([]*sim.Result, error) {
	w := cfg.Workload
	p := cfg.Server
	p.Warmup = cfg.Warmup
	var all []*sim.Result
	for n := range cfg.Hosts {
		first, last := n*len(w.Functions)/cfg.Hosts, (n+1)*len(w.Functions)/cfg.Hosts
		part := &sim.Workload{Name: w.Name, Horizon: w.Horizon, Functions: w.Functions[first:last]}
		for _, a := range w.Arrivals {
			if f := int(a.Function); first <= f && f < last {
				a.Function -= int32(first)
				part.Arrivals = append(part.Arrivals, a)
			}
		}
		r, err := sim.Run(part, p)
		if err != nil {
			return nil, fmt.Errorf("host %d alone: %w", n, err)
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
