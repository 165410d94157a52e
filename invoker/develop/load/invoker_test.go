package load_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/load"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
)

// past is an invoker as a system to load, as the command has it.
type past struct{ loader *handover.Loader }

func (p past) Invoke(ctx context.Context, action string) load.Answer {
	e, err := p.loader.Call(ctx, action)
	if err != nil {
		return load.Answer{ID: e.ID, Failure: err.Error()}
	}
	a := load.Answer{ID: e.ID, Start: e.Start, Ran: true}
	if e.Status != 0 {
		a.Failure = "status"
	}
	return a
}

func (past) Start(context.Context, string) string { return "" }

// TestPastControllers: activations that are written straight to an invoker's
// topic run, their acks have how they started and ended, and the topic that was
// made for them is gone at the end.
func TestPastControllers(t *testing.T) {
	info := openWhisk(t)
	create(t, info, "cpu", "def main(p):\n    return {'n': p['n']}\n", false)
	create(t, info, "gpu", "def main(p):\n    return {'n': p['n']}\n", true)
	create(t, info, "bad", "def main(p):\n    return {'error': 'no'}\n", false)
	cluster, err := kafka.New(kafka.Options{Brokers: []string{info.Kafka}, ClientID: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (handover.Invoker{Cluster: cluster, ID: 7}).Load(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no topic invoker7") {
		t.Errorf("an invoker that never was: %v", err)
	}
	i := handover.Invoker{Cluster: cluster}
	if _, err := i.Load(t.Context(), []byte("[1]")); err == nil || !strings.Contains(err.Error(), "JSON object") {
		t.Errorf("parameters of another kind: %v", err)
	}
	l, err := i.Load(t.Context(), []byte(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	const calls = 12 // four of each
	actions := []string{"guest/cpu", "/guest/gpu", "guest/bad"}
	r := load.Run(t.Context(), load.Options{Actions: actions, Duration: time.Minute, InFlight: 4, Wait: time.Minute, Arrivals: func(yield func(load.Arrival) bool) {
		for i := range calls {
			if !yield(load.Arrival{At: time.Duration(i) * 5 * time.Millisecond, Action: i % 3}) {
				return
			}
		}
	}}, past{l})
	if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	for _, c := range r.Calls {
		failed, gpu := actions[c.Action] == "guest/bad", actions[c.Action] == "/guest/gpu"
		if !c.Ran || (c.Failure != "") != failed || c.ID == "" || c.Latency <= 0 {
			t.Errorf("%s: %+v", actions[c.Action], c)
		}
		if warm := map[bool][]string{true: {"gpu-warm", "host-warm", "busy-cold"}, false: {"warm"}}[gpu]; c.Start != "cold" && !slices.Contains(warm, c.Start) {
			t.Errorf("%s started %s", actions[c.Action], c.Start)
		}
	}
	if len(r.Calls) != calls {
		t.Errorf("%d calls", len(r.Calls))
	}
	s, err := cluster.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.Topics {
		if strings.Contains(name, "load-") {
			t.Errorf("topic %s was left", name)
		}
	}
}
