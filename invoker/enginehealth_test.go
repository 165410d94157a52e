package invoker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// vanishing is an engine that can be away, and what was reported of it.
type vanishing struct {
	fakeDaemon
	away     atomic.Bool
	mu       sync.Mutex
	reported []string
	made     []string // names of all containers that were asked for
}

// Ping is of the daemon, which is away with the engine.
func (v *vanishing) Ping(context.Context) error {
	if v.away.Load() {
		return errors.New("no daemon")
	}
	return nil
}

func (v *vanishing) create(spec container.Spec) error {
	v.mu.Lock()
	v.made = append(v.made, spec.Name)
	v.mu.Unlock()
	if !v.away.Load() {
		return nil
	}
	return &container.CreateError{Blame: container.BlameWhisk, Message: "no", Err: fmt.Errorf("%w: connection refused", container.ErrAway)}
}

func (v *vanishing) report(reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reported = append(v.reported, reason)
}

// wantReports fails the test unless just this was reported.
func (v *vanishing) wantReports(t *testing.T, want ...string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Equal(v.reported, want) {
		t.Fatalf("reported %q, want %q", v.reported, want)
	}
}

func vanishingFixture(t *testing.T) (*fixture, *vanishing, func(iv *Invoker)) {
	env, v := newFixture(t), &vanishing{}
	env.create = v.create
	env.action("f", func(a *activation.Action) { a.Limits.TimeoutMillis = 60000 })
	return env, v, func(iv *Invoker) { iv.health.notify = v.report }
}

// While the engine is away activations wait and nothing more is pulled; when a
// container can be made again all of them run, without an error.
func TestEngineAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, v, listen := vanishingFixture(t)
		s := env.settings()
		s.InFlight = 10
		v.away.Store(true)
		iv, stop := env.start(s, listen)
		for range 100 {
			env.invoke("f", nil)
		}
		time.Sleep(38 * time.Second)
		synctest.Wait()
		if st := env.status(iv); !strings.Contains(st.Engine, "connection refused") {
			t.Errorf("status has %q", st.Engine)
		}
		if n := len(env.feed); n < 100-s.InFlight-1 {
			t.Errorf("%d of 100 were pulled while nothing could be done", 100-n)
		}
		if n := env.acked(); n != 0 {
			t.Errorf("%d acks while the engine is away", n)
		}
		v.away.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		if len(env.records) != 100 {
			t.Fatalf("%d records of 100", len(env.records))
		}
		for _, rec := range env.records {
			if rec.Response.StatusCode != activation.StatusSuccess {
				t.Fatalf("status %d: %s", rec.Response.StatusCode, rec.Response.Result)
			}
		}
		v.wantReports(t, "no: container engine is away: connection refused", "")
		if st := env.status(iv); st.Engine != "" {
			t.Errorf("status has %q", st.Engine)
		}
	})
}

// No name is given twice: what an engine that vanished has made all the same is
// removed by its name, perhaps when the next try has succeeded.
func TestEngineAwayNamesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, v, listen := vanishingFixture(t)
		v.away.Store(true)
		_, stop := env.start(env.settings(), listen)
		id := env.invokeAndWait("f", 20*time.Second)
		v.away.Store(false)
		time.Sleep(10 * time.Second)
		stop()
		if env.record(id) == nil {
			t.Error("no record")
		}
		slices.Sort(v.made)
		if n := len(v.made); n < 4 || len(slices.Compact(slices.Clone(v.made))) != n {
			t.Errorf("names: %q", v.made)
		}
	})
}

// There is one container of a trial at a time: none is made while the last one cannot
// be removed.
func TestTrialsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &clinging{fixture: newFixture(t), clings: true}
		h := newEngineHealth(e, nil, slog.New(slog.DiscardHandler), nil)
		h.lost(errors.New("no answer"), &container.Spec{Name: "f"})
		for range 8 {
			if err := h.try(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if e.made != 1 || e.removed != 0 {
			t.Errorf("%d trials, want 1 that is not removed", e.made)
		}
		e.clings = false
		for range 2 {
			_ = h.try(t.Context())
		}
		if e.made != 3 || e.removed != 3 {
			t.Errorf("%d trials, %d removed, want 3", e.made, e.removed)
		}
	})
}

// clinging is an engine whose containers cannot be removed.
type clinging struct {
	*fixture
	clings bool
}

func (e *clinging) Remove(ctx context.Context, id container.ID) error {
	if e.clings {
		return errors.New("too many open files")
	}
	return e.fixture.Remove(ctx, id)
}

// An activation waits for its own time limit and a minute, and no longer.
func TestEngineThatDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, v, listen := vanishingFixture(t)
		v.away.Store(true)
		_, stop := env.start(env.settings(), listen)
		id := env.invokeAndWait("f", time.Minute+engineTimeout-time.Second)
		synctest.Wait()
		if env.acked() != 0 {
			t.Error("answered before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		rec := env.record(id)
		if rec == nil || rec.Response.StatusCode != activation.StatusWhiskError || !strings.Contains(string(rec.Response.Result), "container engine") {
			t.Fatalf("record %+v", rec)
		}
		stop() // also while it is away
		if len(env.done) != 1 {
			t.Errorf("done %v", env.done)
		}
	})
}

// An engine that a ping finds away, before a container was needed, is
// asked until it answers.
func TestEngineThatIsAskedNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, v, _ := vanishingFixture(t)
		_, stop := env.start(env.settings(), func(iv *Invoker) {
			iv.health.notify, iv.health.daemon = v.report, v
		})
		time.Sleep(time.Minute)
		v.away.Store(true)
		time.Sleep(2 * pingEvery)
		v.wantReports(t, "no daemon")
		v.away.Store(false)
		time.Sleep(2 * slowTrial)
		v.wantReports(t, "no daemon", "")
		stop()
	})
}

// A container that could not be made while the engine is known to be away is made
// when it is back, whatever the engine returned for it: it may answer again just when a
// time limit has passed.
func TestCreationThatFailsWhileTheEngineIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, v, listen := vanishingFixture(t)
		env.create = func(container.Spec) error {
			if !v.away.Load() {
				return nil
			}
			time.Sleep(20 * time.Second)
			return &container.CreateError{Blame: container.BlameWhisk, Message: "no", Err: errors.New("not in time")}
		}
		_, stop := env.start(env.settings(), func(iv *Invoker) {
			listen(iv)
			iv.health.daemon = v
		})
		v.away.Store(true)
		id := env.invokeAndWait("f", 25*time.Second)
		if env.acked() != 0 {
			t.Error("answered while the engine is away")
		}
		v.away.Store(false)
		time.Sleep(20 * time.Second)
		stop()
		env.ok(id)
	})
}

// TestImageOfAUserIsNoTrial: a daemon that answers again is there, however long the
// registry of the image takes for which it was needed last.
func TestImageOfAUserIsNoTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, v := newFixture(t), &vanishing{}
		env.create = func(spec container.Spec) error {
			if spec.Pull {
				time.Sleep(10 * time.Minute)
			}
			return v.create(spec)
		}
		h := newEngineHealth(env, v, slog.New(slog.DiscardHandler), v.report)
		v.away.Store(true)
		h.lost(errors.New("no answer"), &container.Spec{Name: "managed"})
		h.lost(errors.New("no answer"), &container.Spec{Name: "of a user", Pull: true})
		go h.watch(t.Context())
		time.Sleep(time.Minute)
		v.away.Store(false)
		time.Sleep(2 * slowTrial)
		v.wantReports(t, "no answer", "")
		if len(v.made) == 0 || !strings.HasPrefix(v.made[0], "managed") {
			t.Errorf("trials of %q", v.made)
		}
	})
}
