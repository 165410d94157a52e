package invoker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// fakeEvents records the events of pins and the outcomes.
type fakeEvents struct {
	mu    sync.Mutex
	got   []string
	ends  []Outcome
	known map[string]Pin
}

func (o *fakeEvents) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, fmt.Sprintf(format, args...))
}

func (o *fakeEvents) Notify(e Event) {
	switch e := e.(type) {
	case PinReady:
		o.add("ready %d %t", e.ID, e.Warm)
	case PinRefused:
		o.add("refused %d %v", e.ID, e.Err)
	case PinPaused:
		o.add("paused %d %t", e.ID, e.OK)
	case PinLost:
		o.add("lost %d", e.ID)
	case Outcome:
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ends = append(o.ends, e)
	}
}

func (o *fakeEvents) AdoptPin(memo string) (Pin, bool) {
	id, ok := o.known[memo]
	return id, ok
}

func (o *fakeEvents) Return(context.Context, *activation.Message) (bool, error) { return false, nil }

// observe makes an invoker report its events to o.
func observe(iv *Invoker, o Events) {
	iv.dispatch.events, iv.dispatch.pins.events, iv.completer.notify = o, o, o
}

// take returns the events since the last call, when all is quiet.
func (o *fakeEvents) take() []string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.got
	o.got = nil
	return got
}

// pinning is an invoker in a fixture whose events are recorded.
type pinning struct {
	*fixture
	*Invoker
	owner *fakeEvents
	stop  func()
}

// TestIdleGPUContainersGiveWayToPins: their memory does not count as taken.
func TestIdleGPUContainersGiveWayToPins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &pinning{fixture: newFixture(t), owner: &fakeEvents{}}
		s := c.gpuSettings(1)
		c.Invoker, c.stop = c.start(s, func(iv *Invoker) { observe(iv, c.owner) })
		defer c.stop()
		for i := range s.Pool.MemoryMB / 256 {
			name := fmt.Sprint("f", i)
			c.action(name, annotate("true"))
			c.invoke(name, nil)
			synctest.Wait()
		}
		check.Equal(t, c.ReservedMB(), 0, "MB of idle containers are taken")
		c.Pin(request(1))
		c.want("ready 1 false")
		c.containers(s.Pool.MemoryMB/256+1, 1)
	})
}

func withPins(t *testing.T, f func(c *pinning)) {
	synctest.Test(t, func(t *testing.T) {
		c := &pinning{fixture: newFixture(t), owner: &fakeEvents{}}
		c.fixture.action("hello", nil)
		c.begin(c.fixture)
		defer c.stop()
		f(c)
	})
}

func (c *pinning) begin(env *fixture) {
	c.Invoker, c.stop = env.start(env.settings(), func(iv *Invoker) {
		observe(iv, c.owner)
	})
}

func request(id Pin) PinRequest {
	return PinRequest{
		ID: id, Namespace: "guest", Action: "hello", MemoryMB: 256, Concurrency: 1, Memo: "memo",
		Exec: activation.Exec{Kind: "nodejs:20", Image: "node"},
	}
}

// runs runs an activation in a pin, and waits until all is quiet.
func (c *pinning) runs(id Pin, change func(*activation.Message)) activation.ID {
	synctest.Wait() // until it is ready
	c.history = func(d *Delivery) { d.Pin = id }
	one := c.invoke("hello", change)
	synctest.Wait()
	return one
}

func (c *pinning) want(answers ...string) {
	c.t.Helper()
	check.EqualSlices(check.Must(c.t), c.owner.take(), answers)
}

func (c *pinning) containers(made, removed int) {
	c.t.Helper()
	synctest.Wait()
	c.fixture.mu.Lock()
	defer c.fixture.mu.Unlock()
	check.Equal(c.t, c.made, made, "containers were made")
	check.Equal(c.t, c.removed, removed, "containers were removed")
}

func TestPinnedContainerRunsItsActivations(t *testing.T) {
	withPins(t, func(c *pinning) {
		inits := 0
		c.init = func([]byte) proxy.Exchange { inits++; return answer(200, `{}`) }
		c.Pin(request(1))
		c.want("ready 1 false")
		c.runs(1, nil)
		c.runs(1, nil)
		c.containers(1, 0)
		check.Equal(t, inits, 1)
		c.runs(0, nil) // not of the pin: it runs in another container
		c.containers(2, 0)
		synctest.Wait()
		check.Equal(check.Must(t), len(c.owner.ends), 3)
		e := c.owner.ends[0]
		check.That(check.Must(t), e.Keeps, "end %+v", e)
		check.That(check.Must(t), e.Ran, "end %+v", e)
		check.Equal(t, e.Pin, 1)
		c.fixture.action("other", func(a *activation.Action) { a.Limits.MemoryMB = 2048 })
		c.history = nil
		c.invoke("other", nil)
		pass(time.Hour) // the pinned container is neither paused nor evicted
		c.want()
		c.Unpin(1)
		synctest.Wait()
		c.want()
	})
}

func TestPinIsRefusedIfMemoryIsShort(t *testing.T) {
	withPins(t, func(c *pinning) {
		big := request(1)
		big.MemoryMB = 2048
		c.Pin(big)
		c.want("ready 1 false")
		c.Pin(request(2))
		c.want("refused 2 not enough memory")
		c.Unpin(1)
		synctest.Wait()
		c.Pin(request(3))
		c.want("ready 3 false")
	})
}

func TestPinHasTheErrorOfItsContainer(t *testing.T) {
	withPins(t, func(c *pinning) {
		c.create = func(container.Spec) error {
			return &container.CreateError{Blame: container.BlameDeveloper, Message: "Failed to pull container image 'x'."}
		}
		c.Pin(request(1))
		c.want("refused 1 Failed to pull container image 'x'.")
	})
}

func TestPinIsPausedAndUsedAgain(t *testing.T) {
	withPins(t, func(c *pinning) {
		c.Pin(request(1))
		c.want("ready 1 false")
		c.runs(1, nil)
		c.PausePin(1)
		c.want("paused 1 true")
		pass(time.Hour) // only the owner removes the container
		c.want()
		c.Pin(request(1))
		c.want("ready 1 true")
		c.runs(1, nil)
		c.containers(1, 0)
	})
}

func TestPausedPinIsEvicted(t *testing.T) {
	withPins(t, func(c *pinning) {
		c.Pin(request(1))
		c.runs(1, nil)
		c.PausePin(1)
		c.want("ready 1 false", "paused 1 true")
		big := request(2)
		big.MemoryMB = 2048
		c.Pin(big)
		c.want("lost 1", "ready 2 false")
		c.containers(2, 1)
	})
}

func TestPinGetsANewContainerAfterAFailedResume(t *testing.T) {
	withPins(t, func(c *pinning) {
		c.Pin(request(1))
		c.runs(1, nil)
		c.PausePin(1)
		c.want("ready 1 false", "paused 1 true")
		c.resume = func() error { return errors.New("cannot") }
		c.Pin(request(1))
		c.want("ready 1 false")
		c.containers(2, 1)
		c.runs(1, nil)
		c.containers(2, 1)
	})
}

func TestPinIsLostWithAFailedPause(t *testing.T) {
	withPins(t, func(c *pinning) {
		c.Pin(request(1))
		c.runs(1, nil)
		c.pause = func() error { return errors.New("cannot") }
		c.PausePin(1)
		c.want("ready 1 false", "paused 1 false")
		c.containers(1, 1)
	})
}

func TestPinIsLostWithAFailedRun(t *testing.T) {
	withPins(t, func(c *pinning) {
		c.init = func([]byte) proxy.Exchange { return answer(502, `{"error":"x"}`) }
		c.Pin(request(1))
		c.runs(1, nil)
		c.want("ready 1 false", "lost 1")
		c.containers(1, 1)
		e := c.owner.ends[0]
		check.That(t, !e.Keeps, "end %+v", e)
		check.That(t, e.Ran, "end %+v", e)
		c.init = func([]byte) proxy.Exchange { return answer(200, `{}`) }
		c.runs(1, nil) // an activation that was pulled too late
		c.containers(2, 1)
	})
}

func TestPinIsLostWithItsContainer(t *testing.T) {
	withPins(t, func(c *pinning) {
		c.Pin(request(1))
		c.want("ready 1 false")
		c.diedC <- "id1"
		c.want("lost 1")
		c.containers(1, 1)
	})
}

// TestPinnedContainerServesOneKey: a container that received its caller's key does not
// serve another caller.
func TestPinnedContainerServesOneKey(t *testing.T) {
	withPins(t, func(c *pinning) {
		c.fixture.action("hello", func(a *activation.Action) {
			a.Annotations = activation.Annotations{{Key: "provide-api-key", Value: []byte("true")}}
		})
		c.Pin(request(1))
		c.runs(1, nil)
		c.containers(1, 0)
		c.runs(1, func(m *activation.Message) { m.User.AuthKey = activation.NewAuthKey("other:s") })
		c.containers(2, 0)
		c.runs(1, nil)
		c.containers(2, 0)
		c.want("ready 1 false")
	})
}

func TestConcurrentRunsShareAPinnedContainer(t *testing.T) {
	withPins(t, func(c *pinning) {
		c.fixture.action("hello", func(a *activation.Action) { a.Limits.Concurrency = 3 })
		r := request(1)
		r.Concurrency = 3
		c.Pin(r)
		c.runs(1, nil)
		release := make(chan struct{})
		c.setRun(func(int, []byte) proxy.Exchange { <-release; return answer(200, `{}`) })
		for range 3 {
			c.runs(1, nil)
		}
		c.containers(1, 0)
		close(release)
		synctest.Wait()
		check.Equal(t, len(c.owner.ends), 4)
	})
}

func TestPinnedContainerIsAdoptedPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSurvivors(t)
		e.fixture.action("hello", nil)
		c := &pinning{fixture: e.fixture, owner: &fakeEvents{}}
		c.fixture.follows = true
		c.begin(e.fixture)
		c.Pin(request(1))
		c.runs(1, nil)
		c.want("ready 1 false")
		c.stop()
		next := e.process()
		c = &pinning{fixture: next.fixture, owner: &fakeEvents{known: map[string]Pin{"memo": 7}}}
		c.begin(next.fixture)
		defer c.stop()
		c.want()
		c.Pin(request(7))
		c.want("ready 7 true")
		c.runs(7, nil)
		c.containers(0, 0)
	})
}
