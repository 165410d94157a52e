package load_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
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

// TestPastControllers: activations that are sent directly to an invoker's topic run.
// Their acks contain start kind and outcome, and the topic for the acks is deleted at
// the end.
func TestPastControllers(t *testing.T) {
	info := openWhisk(t)
	cluster, err := kafka.New(kafka.Options{Brokers: []string{info.Kafka}, ClientID: "test", Log: slog.New(slog.DiscardHandler)})
	check.NoError(t, err)
	_, err = handover.Invoker{Cluster: cluster, ID: 7}.Load(t.Context(), nil)
	check.ErrorContains(t, err, "no topic invoker7", "an invoker that never was")
	i := handover.Invoker{Cluster: cluster}
	_, err = i.Load(t.Context(), []byte("[1]"))
	check.ErrorContains(t, err, "JSON object", "parameters of another kind")
	l, err := i.Load(t.Context(), []byte(`{"n":1}`))
	check.NoError(t, err)
	actions := []string{"guest/cpu", "/guest/gpu", "guest/bad"}
	r := load.Run(t.Context(), roundRobin(actions), past{l})
	if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	for _, c := range r.Calls {
		failed, gpu := actions[c.Action] == "guest/bad", actions[c.Action] == "/guest/gpu"
		check.That(t, c.Ran, "%s: %+v", actions[c.Action], c)
		check.Equal(t, c.Failure != "", failed, "%s: %+v", actions[c.Action], c)
		check.That(t, c.ID != "", "%s: %+v", actions[c.Action], c)
		check.Greater(t, c.Latency, 0, "%s", actions[c.Action])
		check.Includes(t, starts(gpu), c.Start, "%s", actions[c.Action])
	}
	check.Equal(t, len(r.Calls), calls)
	s, err := cluster.Describe(t.Context())
	check.NoError(t, err)
	for name := range s.Topics {
		check.Lacks(t, name, "load-", "a topic that was left")
	}
}
