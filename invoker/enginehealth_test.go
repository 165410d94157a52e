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
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// vanishing is an engine that can be away, with the health reports about it.
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
	check.EqualSlices(check.Must(t), v.reported, want)
}

func vanishingFixture(t *testing.T) (*fixture, *vanishing, func(iv *Invoker)) {
	env, v := newFixture(t), &vanishing{}
	env.create = v.create
	env.action("f", func(a *activation.Action) { a.Limits.TimeoutMillis = 60000 })
	return env, v, func(iv *Invoker) { iv.health.notify = v.report }
}

// While the engine is away, activations wait and nothing more is pulled. When a container can
// be created again, all of them run without an error.
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
		check.Contains(t, env.status(iv).Engine, "connection refused")
		check.AtLeast(t, len(env.feed), 100-s.InFlight-1, "of 100 were pulled while nothing could be done")
		check.Equal(t, env.acked(), 0, "acks while the engine is away")
		v.away.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		check.Equal(check.Must(t), len(env.records), 100, "records of 100")
		for _, rec := range env.records {
			check.Equal(check.Must(t), rec.Response.StatusCode, activation.StatusSuccess, "status %d: %s", rec.Response.StatusCode, rec.Response.Result)
		}
		v.wantReports(t, "no: container engine is away: connection refused", "")
		check.Equal(t, env.status(iv).Engine, "")
	})
}

// No name is used twice: a container that the engine created while it was away is removed by
// its name, perhaps after the next attempt has succeeded.
func TestEngineAwayNamesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, v, listen := vanishingFixture(t)
		v.away.Store(true)
		_, stop := env.start(env.settings(), listen)
		id := env.invokeAndWait("f", 20*time.Second)
		v.away.Store(false)
		time.Sleep(10 * time.Second)
		stop()
		check.That(t, env.record(id) != nil, "no record")
		slices.Sort(v.made)
		n := len(v.made)
		check.AtLeast(t, n, 4)
		check.Equal(t, len(slices.Compact(slices.Clone(v.made))), n)
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
			check.NoError(t, h.try(t.Context()))
		}
		check.Equal(t, e.made, 1)
		check.Equal(t, e.removed, 0)
		e.clings = false
		for range 2 {
			_ = h.try(t.Context())
		}
		check.Equal(t, e.made, 3)
		check.Equal(t, e.removed, 3)
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
		check.Equal(t, env.acked(), 0, "answered before its time")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		rec := env.record(id)
		check.That(check.Must(t), rec != nil, "record %+v", rec)
		check.Equal(check.Must(t), rec.Response.StatusCode, activation.StatusWhiskError)
		check.Contains(check.Must(t), string(rec.Response.Result), "container engine")
		stop() // also while it is away
		check.Equal(t, len(env.done), 1)
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

// A container that could not be created while the engine is known to be away is created when
// it is back, whatever error the engine returned. The engine may answer again just after a
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
		check.Equal(t, env.acked(), 0, "answered while the engine is away")
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
		check.Greater(check.Must(t), len(v.made), 0)
		check.That(t, strings.HasPrefix(v.made[0], "managed"), "trials of %q", v.made)
	})
}
