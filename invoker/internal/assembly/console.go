package assembly

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/console"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	dto "github.com/prometheus/client_model/go"
)

// How much of the past the console shows.
const (
	recentActivations = 50              // activations
	functionPeriod    = 5 * time.Minute // of functions' waiting and running times
)

// view has everything that the console and gpuwhisk top show.
type view struct {
	At        int64               `json:"at"` // ms since 1970
	Version   string              `json:"version"`
	Status    status              `json:"status"`
	Functions []*explain.Function `json:"functions"`
	Recent    []recent            `json:"recent"`
	Explained uint64              `json:"explained"` // traces, ever
	Counters  map[string]float64  `json:"counters"`
}

// recent is one line of the last activations.
type recent struct {
	ID       string  `json:"id"`
	At       int64   `json:"at"` // answered, ms since 1970
	Function string  `json:"function"`
	Start    string  `json:"start"`
	Device   string  `json:"device,omitempty"`
	WaitMs   float64 `json:"waitMs"`
	RunMs    float64 `json:"runMs"`
	Latency  float64 `json:"latencyMs"`
	Status   int     `json:"status"`
}

func (o *overview) console() http.Handler {
	return console.New(console.Options{
		Snapshot: func(ctx context.Context) (any, error) { return o.view(ctx) },
		Explain:  o.explained, Closing: o.closing,
	})
}

func (o *overview) view(ctx context.Context) (*view, error) {
	s, err := o.status(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	v := &view{At: now.UnixMilli(), Version: o.Version, Status: s, Counters: o.counters()}
	iv := o.invoker.Load()
	if iv == nil {
		return v, nil
	}
	log := iv.Explain()
	v.Functions = log.Functions(now.Add(-functionPeriod))
	traces, seen := log.Recent(recentActivations)
	v.Explained = seen
	for i := range traces {
		v.Recent = append(v.Recent, summary(&traces[i]))
	}
	return v, nil
}

func summary(a *explain.Trace) recent {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	r := recent{
		ID: a.ID, At: a.Answered.UnixMilli(), Function: a.Function(), Start: a.Start,
		WaitMs: ms(a.Wait()), Latency: ms(a.Latency()), Status: a.Status,
	}
	if !a.RunStart.IsZero() {
		r.RunMs = ms(a.RunEnd.Sub(a.RunStart))
	}
	if a.GPU != nil {
		r.Device = a.GPU.Device
	}
	return r
}

// explained returns the trace of one activation.
func (o *overview) explained(id string) (any, bool) {
	iv := o.invoker.Load()
	if iv == nil {
		return nil, false
	}
	trace, ok := iv.Explain().Find(id)
	if !ok {
		return nil, false
	}
	return explain.Explain(&trace), true
}

// counters returns the counters of all functions together (lost, spooled, repeated and so on)
// by name and labels.
func (o *overview) counters() map[string]float64 {
	all := map[string]float64{}
	families, _ := o.metrics.Gather() // on an error, the families that could be gathered
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), "gpuwhisk_")
		if !ours || f.GetType() != dto.MetricType_COUNTER {
			continue
		}
		for _, m := range f.GetMetric() {
			key := strings.TrimSuffix(name, "_total")
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			all[key] = m.GetCounter().GetValue()
		}
	}
	return all
}
