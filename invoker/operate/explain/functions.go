package explain

import (
	"slices"
	"strings"
	"time"
)

// Function is what the runs of a function have been like.
type Function struct {
	Function string         `json:"function"`
	Count    int            `json:"count"`
	Failed   int            `json:"failed"`
	Starts   map[string]int `json:"starts"` // by start kind
	Wait     Quantiles      `json:"waitMs"`
	Latency  Quantiles      `json:"latencyMs"`
}

// Quantiles of times, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Functions sums up the kept traces that were answered since a time, by function
// and in the order of their names.
func (l *Log) Functions(since time.Time) []*Function {
	if l == nil {
		return nil
	}
	type times struct{ wait, latency []time.Duration }
	all, of := []*Function{}, map[string]*times{}
	byName := map[string]*Function{}
	for _, t := range l.newest(l.size) {
		if t.Answered.Before(since) {
			continue
		}
		name := t.Function()
		f := byName[name]
		if f == nil {
			f = &Function{Function: name, Starts: map[string]int{}}
			byName[name], of[name] = f, &times{}
			all = append(all, f)
		}
		f.Count++
		if t.Status != 0 {
			f.Failed++
		}
		d := of[name]
		d.latency = append(d.latency, t.Latency())
		if t.Start != "" {
			f.Starts[t.Start]++
			d.wait = append(d.wait, t.Wait())
		}
	}
	for _, f := range all {
		f.Wait, f.Latency = quantiles(of[f.Function].wait), quantiles(of[f.Function].latency)
	}
	slices.SortFunc(all, func(a, b *Function) int { return strings.Compare(a.Function, b.Function) })
	return all
}

// quantiles sorts d.
func quantiles(d []time.Duration) (q Quantiles) {
	if len(d) == 0 {
		return q
	}
	slices.Sort(d)
	at := func(p float64) float64 { return float64(d[int(p*float64(len(d)-1)+0.5)].Microseconds()) / 1000 }
	return Quantiles{at(0.5), at(0.95), at(0.99)}
}
