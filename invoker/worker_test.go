package invoker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// The action's answer decides how its log is read and whether its container lives on. The end
// of the output is awaited if the action answered and its runtime writes sentinels. A broken
// container is not used again.
func TestAnswerDecidesOnLogsAndContainer(t *testing.T) {
	for _, c := range []struct {
		name      string
		answer    proxy.Exchange
		sentinels bool
		wait      bool
		failed    bool
		removed   int
	}{
		{"success", answer(200, `{}`), true, true, false, 0},
		{"application error", answer(200, `{"error":1}`), true, true, false, 0},
		{"developer error", answer(502, `{"error":1}`), true, false, true, 1},
		{"crash", proxy.Exchange{Failure: proxy.NoResponse}, true, false, true, 1},
		{"a runtime without sentinels", answer(200, `{}`), false, false, false, 0},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("a", func(a *activation.Action) { a.Limits.LogsMB, a.Exec.Sentinels = 3, c.sentinels })
			env.setRun(func(int, []byte) proxy.Exchange { return c.answer })
			_, stop := env.start(env.settings())
			env.invokeAndWait("a", 0)
			removed := env.removed
			stop()
			check.Equal(check.Must(t), len(env.asked), 1, "%s", c.name)
			check.Equal(check.Must(t), removed, c.removed, "%s", c.name)
			got := env.asked[0]
			got.Reserve = nil
			want := container.LogRequest{WaitForSentinel: c.wait, LimitBytes: 3 << 20, Failed: c.failed, Alone: true, Now: got.Now}
			want.Answered = c.failed && c.answer.Failure == proxy.None
			check.DeepEqual(t, got, want, "%s: asked", c.name)
		})
	}
}

// TestLogsOfAContainerThatEndsAtOnce: the record of an activation whose container ended before
// it had an address contains the container's output, and the container is removed.
func TestLogsOfAContainerThatEndsAtOnce(t *testing.T) {
	for _, gpus := range []bool{false, true} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.endsAtOnce = true
			env.create = func(container.Spec) error {
				return &container.CreateError{Blame: container.BlameDeveloper, Message: "The action did not initialize and exited unexpectedly."}
			}
			env.logs.Lines = []string{"no licence"}
			s := env.settings()
			env.action("a", nil)
			if gpus {
				s = env.gpuSettings(1)
				env.action("a", annotate(`{"memory":"2 GB"}`))
			}
			_, stop := env.start(s)
			id := env.invokeAndWait("a", 0)
			synctest.Wait()
			rec, removed := env.record(id), env.removed
			stop()
			check.EqualSlices(check.Must(t), rec.Logs, []string{"no licence"}, "gpus: %t", gpus)
			check.Equal(t, rec.Response.StatusCode, activation.StatusDeveloperError)
			check.Equal(t, removed, 1, "containers")
			check.That(t, env.asked[0].Failed, "asked %+v", env.asked[0])
		})
	}
}

// A container that turns out to be unhealthy after its rest, or gone, does no harm: the
// action saw nothing, and runs elsewhere.
func TestUnwellAfterRest(t *testing.T) {
	second := func(x proxy.Exchange) func(*fixture) {
		return func(env *fixture) {
			env.run = func(n int, _ []byte) proxy.Exchange {
				if n == 2 {
					return x
				}
				return answer(200, `{}`)
			}
		}
	}
	for name, unwell := range map[string]func(*fixture){
		"says 503":          second(answer(503, ``)),
		"does not listen":   second(proxy.Exchange{Failure: proxy.Refused}),
		"cannot be resumed": func(env *fixture) { env.resume = func() error { return container.ErrGone } },
	} {
		for _, rest := range []time.Duration{0, time.Minute} { // not paused yet, and paused
			if rest == 0 && name == "cannot be resumed" {
				continue
			}
			withFixture(t, func(t *testing.T, env *fixture) {
				env.action("a", nil)
				unwell(env)
				_, stop := env.start(env.settings())
				env.invokeAndWait("a", rest)
				env.ok(env.invokeAndWait("a", 0))
				stop()
				check.Equal(t, env.made, 2, "%s after %s", name, rest)
				check.Equal(t, env.removed, 1, "%s after %s", name, rest)
				check.Equal(t, len(env.acks), 4, "%s after %s", name, rest)
				check.Equal(t, len(env.done), 2, "%s after %s", name, rest)
			})
		}
	}
}

// TestUnwellBesideAnotherRun: a call that reached no action runs in another container. A
// container that answers 503 beside another run was not idle, so that the call may have
// begun: it is answered and not run again.
func TestUnwellBesideAnotherRun(t *testing.T) {
	for name, c := range map[string]struct {
		broken     proxy.Exchange
		status     int
		containers int
	}{
		"refused":   {proxy.Exchange{Failure: proxy.Refused}, activation.StatusSuccess, 2},
		"unhealthy": {proxy.Exchange{Status: 503, Sent: true}, activation.StatusDeveloperError, 1},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("a", func(a *activation.Action) { a.Limits.Concurrency = 2 })
			resident := make(chan struct{})
			env.setRun(func(n int, _ []byte) proxy.Exchange {
				switch n {
				case 2:
					<-resident
				case 3:
					return c.broken
				}
				return answer(200, `{}`)
			})
			s := env.settings()
			s.Bounds.Concurrency.Max = 2
			_, stop := env.start(s)
			env.invokeAndWait("a", 0)
			env.invokeAndWait("a", 0)
			id := env.invokeAndWait("a", 0)
			close(resident)
			synctest.Wait()
			stop()
			rec := env.record(id)
			check.That(check.Must(t), rec != nil, "%s: no record, %d containers", name, env.made)
			check.Equal(t, rec.Response.StatusCode, c.status, "%s", name)
			check.Equal(t, env.made, c.containers, "%s: containers", name)
		})
	}
}

// A container whose log is being read is not offered to another run: their
// lines would mix.
func TestContainerIsBusyUntilItsLogsAreRead(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("a", nil)
		read := make(chan struct{})
		env.logging = func() { <-read }
		_, stop := env.start(env.settings())
		env.invokeAndWait("a", 0)
		env.invokeAndWait("a", 0)
		env.mu.Lock()
		made := env.made
		env.mu.Unlock()
		close(read)
		synctest.Wait()
		stop()
		check.Equal(t, made, 2)
		check.Equal(t, len(env.done), 2)
	})
}

// boundedClient is a client that reports the bounds of each answer.
type boundedClient struct {
	ProxyClient
	reported map[string]proxy.Limit
}

func (h boundedClient) Init(ctx context.Context, body []byte, timeout time.Duration, limit proxy.Limit) proxy.Exchange {
	h.reported["init"] = limit
	return h.ProxyClient.Init(ctx, body, timeout, limit)
}

func (h boundedClient) Run(ctx context.Context, body []byte, timeout time.Duration, limit proxy.Limit) proxy.Exchange {
	h.reported["run"] = limit
	return h.ProxyClient.Run(ctx, body, timeout, limit)
}

// The size of the answer to /run is bounded by the namespace's limit, the answer to /init by
// the system's.
func TestAnswersAreBounded(t *testing.T) {
	most, kept := activation.Size(2000), activation.Size(1000)
	reported := map[string]proxy.Limit{}
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("a", nil)
		_, stop := env.start(env.settings(), func(iv *Invoker) {
			iv.dispatch.dial = func(addr string, concurrency int) ProxyClient {
				return boundedClient{env.dial(addr, concurrency), reported}
			}
		})
		env.invoke("a", func(m *activation.Message) { m.User.Limits.MaxPayload, m.User.Limits.Truncation = &most, &kept })
		synctest.Wait()
		stop()
	})
	want := map[string]proxy.Limit{"init": {Max: 1 << 20, Truncation: 1 << 20}, "run": {Max: 2000, Truncation: 1000}}
	check.That(t, maps.Equal(reported, want), "got %v, want %v", reported, want)
}

// A failed fetch is answered as the original answers it.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{fmt.Errorf("get guest/a: %w", ErrNotFound), activation.StatusApplicationError, "Action could not be found or may have been deleted."},
		{fmt.Errorf("decode action: %w", activation.ErrIncompatible), activation.StatusWhiskError, "Action version is not compatible and cannot be invoked."},
		{errors.New("connection refused"), activation.StatusWhiskError, "Action could not be fetched."},
	} {
		got := unfetched(c.err)
		check.That(t, got.Record == nil, "%v: got %+v %s, want status %d and %q", c.err, got, got.response.Result, c.status, c.text)
		check.Equal(t, got.response.StatusCode, c.status, "%v: got %+v %s, want status %d and %q", c.err, got, got.response.Result, c.status, c.text)
		check.Equal(t, string(got.response.Result), `{"error":"`+c.text+`"}`, "%v: got %+v %s, want status %d and %q", c.err, got, got.response.Result, c.status, c.text)
	}
}

// A container's resources follow the original: a processor share in proportion to memory with
// a floor, and a processor limit only if one is configured.
func TestContainerShares(t *testing.T) {
	s := Settings{Pool: container.Config{MemoryMB: 2048}}
	for memory, want := range map[int]int{128: 64, 256: 128, 512: 256, 2048: 1024, 4096: 1024, 1: 2} {
		check.Equal(t, s.spec(activation.Exec{Kind: "k", Image: "i"}, memory).CPUShares, want, "%d MB", memory)
	}
	s.UserCPUs = 2
	for memory, want := range map[int]float64{256: 0.25, 100: 0.1, 1: 0.01} {
		check.Equal(t, s.spec(activation.Exec{Kind: "k", Image: "i"}, memory).CPUs, want, "%d MB", memory)
	}
	check.Equal(t, containerName("wsk00_", 7, "guest", "a b.c-d_é"), "wsk00_7_guest_abcd_")
	long := containerName("wsk00_", 8, strings.Repeat("n", 256), strings.Repeat("a", 256))
	check.Equal(t, long, "wsk00_8_"+strings.Repeat("n", 172), "the longest names of OpenWhisk")
}

// slowRecords is a store of which each record is taken when the test lets it.
type slowRecords struct {
	*fixture
	take chan struct{}
}

func (s slowRecords) Put(ctx context.Context, id string, doc []byte, stored func(int, error)) error {
	<-s.take
	return s.fixture.Put(ctx, id, doc, stored)
}

// largeLogger is an engine of which every log needs memory reserved.
type largeLogger struct {
	*fixture
	read atomic.Int32 // logs that were read
}

func (e *largeLogger) Logs(_ context.Context, _ container.ID, req container.LogRequest) container.LogResult {
	if err := req.Reserve(); err != nil {
		return container.LogResult{Incomplete: true}
	}
	e.read.Add(1)
	return container.LogResult{Lines: []string{"a line"}}
}

// However many activations print much at once, the logs in memory are bounded
// until the store has taken them; then nothing keeps the lines.
func TestLargeLogsAreBounded(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		engine := &largeLogger{fixture: env}
		env.engine = engine
		store := slowRecords{env, make(chan struct{})}
		for name, mb := range map[string]int{"large": 10, "huge": 100} {
			env.action(name, func(a *activation.Action) { a.Limits.LogsMB = mb })
		}
		s := env.settings()
		s.Bounds.LogsMB.Max, s.Pool.MemoryMB = 100, 30*256
		_, stop := env.start(s, func(iv *Invoker) { iv.completer.records = store })
		const all, atOnce = 30, 1 // of 10 MB each in 16 MiB
		for range all {
			env.invoke("large", nil)
		}
		for n := atOnce; n <= all; n++ {
			synctest.Wait()
			got := int(engine.read.Load())
			check.Equal(check.Must(t), got, n, "%d logs were read while %d were stored, want %d", got, n-atOnce, n)
			store.take <- struct{}{}
		}
		for range atOnce - 1 {
			store.take <- struct{}{}
		}
		env.invoke("huge", nil) // larger than all together may be
		store.take <- struct{}{}
		synctest.Wait()
		stop()
		check.Equal(check.Must(t), len(env.records), all+1)
		check.Equal(t, len(env.records[all].Logs), 1)
	})
}
