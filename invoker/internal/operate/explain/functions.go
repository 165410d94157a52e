package explain

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Function holds statistics of a function.
type Function struct {
	Function string         `json:"function"`
	Count    int            `json:"count"`
	Failed   int            `json:"failed"`
	Starts   map[string]int `json:"starts"` // by start kind
	Wait     Quantiles      `json:"waitMs"`
	Latency  Quantiles      `json:"latencyMs"`
}

// Quantiles are quantiles of times, in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Functions returns the statistics of all activations in the log that were answered since
// a time, sorted by the functions' names.
func (l *Log) Functions(since time.Time) []*Function {
	if l == nil {
		return nil
	}
	type times struct{ wait, latency []time.Duration }
	all, of := map[string]*Function{}, map[string]*times{}
	for _, t := range l.newest(l.size) {
		if t.Answered.Before(since) {
			continue
		}
		name := t.Function()
		f, d := all[name], of[name]
		if f == nil {
			f, d = &Function{Function: name, Starts: map[string]int{}}, &times{}
			all[name], of[name] = f, d
		}
		f.Count++
		if t.Status != 0 {
			f.Failed++
		}
		d.latency = append(d.latency, t.Latency())
		if t.Start != "" {
			f.Starts[t.Start]++
			d.wait = append(d.wait, t.Wait())
		}
	}
	for name, f := range all {
		f.Wait, f.Latency = quantiles(of[name].wait), quantiles(of[name].latency)
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *Function) int { return strings.Compare(a.Function, b.Function) })
}

// quantiles returns the quantiles of d. It sorts d.
func quantiles(d []time.Duration) (q Quantiles) {
	if len(d) == 0 {
		return q
	}
	slices.Sort(d)
	at := func(p float64) float64 { return float64(d[int(p*float64(len(d)-1)+0.5)].Microseconds()) / 1000 }
	return Quantiles{at(0.5), at(0.95), at(0.99)}
}
