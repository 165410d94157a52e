//go:build ansible

package tests

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// acks stores the time of each invoker's answers, from the brokers' topics.
type acks struct {
	mu sync.Mutex
	at map[int][]time.Time
}

// watchAcks reads all topics of acks from now until the end of the test.
func (w *fixture) watchAcks() *acks {
	w.t.Helper()
	a := &acks{at: map[int][]time.Time{}}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.kafka), kgo.ConsumeRegex(), kgo.ConsumeTopics("^completed.*"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(300*time.Millisecond))
	check.NoError(w.t, err)
	w.readAcks(client, func(ack activation.Ack, at time.Time) {
		if ack.FreesSlot() {
			a.mu.Lock()
			a.at[ack.Instance.ID] = append(a.at[ack.Instance.ID], at)
			a.mu.Unlock()
		}
	})
	return a
}

// readAcks calls take for each ack that a client reads, until the end of the test.
func (w *fixture) readAcks(client *kgo.Client, take func(ack activation.Ack, at time.Time)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				if ack, err := activation.DecodeAck(r.Value); err == nil {
					take(ack, r.Timestamp)
				}
			})
		}
	}()
	w.t.Cleanup(func() { cancel(); <-done; client.Close() })
}

// after returns the time of an invoker's first answer since a moment.
func (a *acks) after(n int, since time.Time) (first time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.at[n] {
		if !at.Before(since) && (!ok || at.Before(first)) {
			first, ok = at, true
		}
	}
	return first, ok
}

// parts returns the times within a gap at which Docker started our container and our log
// reported readiness.
func (w *fixture) parts(t *testing.T, n int, stopped time.Time) (output string) {
	t.Helper()
	if _, unit := w.machines[n]; !unit {
		at, err := time.Parse(time.RFC3339Nano, docker(t, "inspect", "--format", "{{.State.StartedAt}}", fmt.Sprintf("invoker%d", n)))
		if err == nil {
			output = fmt.Sprintf(", begun after %v", at.Sub(stopped).Round(time.Millisecond))
		}
	}
	text, _ := os.ReadFile(fmt.Sprintf("%s/logs/invoker%d/invoker%d_logs.log", w.dir, n, n))
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "invoker is ready") {
			continue
		}
		head, _, _ := strings.Cut(strings.TrimPrefix(line, "["), "]")
		if at, err := time.Parse(time.RFC3339Nano, head); err == nil && at.After(stopped) {
			return output + fmt.Sprintf(", ready after %v", at.Sub(stopped).Round(time.Millisecond))
		}
	}
	return output
}

// logYardstick prints how long this machine takes for a container that does nothing. A
// gap contains at least one such time.
func (w *fixture) logYardstick(t *testing.T) {
	t.Helper()
	began := time.Now()
	docker(t, "run", "--rm", "gpuwhisk/invoker:"+os.Getenv(ownTag), "true")
	t.Logf("a container that does nothing takes %v here", time.Since(began).Round(time.Millisecond))
}

// logGap prints how long no process served an invoker's activations: from the end of
// OpenWhisk's invoker to the first answer of ours. The time depends on the machine, so
// it is printed but not checked. The existence of an answer is checked.
func (w *fixture) logGap(t *testing.T, a *acks, n int) {
	t.Helper()
	output := docker(t, "inspect", "--format", "{{.State.FinishedAt}}", fmt.Sprintf("invoker%d-stock", n))
	stopped, err := time.Parse(time.RFC3339Nano, output)
	check.NoError(t, err)
	stopped = stopped.Truncate(time.Millisecond) // like Kafka's times
	late := time.After(waitLimit)
	for {
		if first, ok := a.after(n, stopped); ok {
			t.Logf("gap of invoker%d: %v from the stop to the first ack%s", n, first.Sub(stopped).Round(time.Millisecond), w.parts(t, n, stopped))
			return
		}
		select {
		case <-late:
			t.Fatalf("invoker%d answers nothing after the swap:\n%s", n, w.logs())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
