package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/apache/openwhisk-client-go/whisk"
)

// arrival is one call to be made.
type arrival struct {
	at       time.Duration
	function int // index
}

// arrivals draws Poisson arrivals for every function. The same seed gives the
// same calls at the same times.
func arrivals(functions []Function, load time.Duration, seed uint64) []arrival {
	var all []arrival
	for i, f := range functions {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		for at := gap(r, f.Rate); at < load; at += gap(r, f.Rate) {
			all = append(all, arrival{at, i})
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return int(a.at - b.at) })
	return all
}

func gap(r *rand.Rand, rate float64) time.Duration {
	return time.Duration(r.ExpFloat64() / rate * float64(time.Second))
}

// call is one invocation and what its caller got.
type call struct {
	function int
	id       string // of the activation, empty if the call was refused
	latency  time.Duration
	err      error
}

// drive makes the calls at their times, whatever became of those before, and
// returns when all are answered.
func drive(ctx context.Context, client *whisk.Client, o Options, p printer) ([]call, error) {
	plan := arrivals(o.Functions, o.Load, o.Seed)
	calls := make([]call, len(plan))
	progress := p.progress(o.Standalone.Policy, o.Load)
	var running sync.WaitGroup
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var stopped error
	for i, a := range plan {
		timer.Reset(time.Until(begin.Add(a.at)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			stopped = ErrInterrupted
			p.say("\nstopping: waiting for what runs; a second signal leaves at once")
		}
		if stopped != nil {
			break
		}
		progress.sent()
		running.Go(func() {
			calls[i] = invoke(client, o.Functions[a.function], a.function)
			progress.answered()
		})
	}
	running.Wait()
	progress.end(time.Since(begin))
	return calls, stopped
}

// invoke makes one blocking call. A function that fails is an answer too.
func invoke(client *whisk.Client, f Function, index int) call {
	begin := time.Now()
	answer, _, err := client.Actions.Invoke(f.Name, map[string]string{"name": "Ada"}, true, false) //nolint:bodyclose // the client has read it to its end
	c := call{function: index, latency: time.Since(begin), err: err}
	if fields, ok := answer.(map[string]any); ok {
		c.id, _ = fields["activationId"].(string)
	}
	return c
}

// percentile is the smallest value that at least p of the sorted values do not
// exceed.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(p*float64(len(sorted)) + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// gpuRun is the annotation that the record of a GPU run carries.
type gpuRun struct {
	Start     string `json:"start"`
	QueueTime int64  `json:"queueTime"`
	GPUTime   int64  `json:"gpuTime"`
}

func decodeGPU(raw json.RawMessage) (gpuRun, error) {
	var g gpuRun
	if err := json.Unmarshal(raw, &g); err != nil {
		return g, fmt.Errorf("decode gpu annotation: %w", err)
	}
	return g, nil
}
