package invoker

import (
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

// fakeOwner writes down what it is answered.
type fakeOwner struct {
	mu    sync.Mutex
	got   []string
	ends  []End
	known map[string]Claim
}

func (o *fakeOwner) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, fmt.Sprintf(format, args...))
}

func (o *fakeOwner) Acquired(id Claim, warmed bool) { o.add("acquired %d %t", id, warmed) }
func (o *fakeOwner) Refused(id Claim, err error)    { o.add("refused %d %v", id, err) }
func (o *fakeOwner) Paused(id Claim, ok bool)       { o.add("paused %d %t", id, ok) }
func (o *fakeOwner) Lost(id Claim)                  { o.add("lost %d", id) }
func (o *fakeOwner) Adopted(memo string) (Claim, bool) {
	id, ok := o.known[memo]
	return id, ok
}

func (o *fakeOwner) ended(e End) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends = append(o.ends, e)
}

// take gives what was answered since the last time, when all is quiet.
func (o *fakeOwner) take() []string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	got := o.got
	o.got = nil
	return got
}

// claiming is an invoker in a fixture whose claims have an owner.
type claiming struct {
	*fixture
	*Invoker
	owner *fakeOwner
	stop  func()
}

// TestIdleGPUContainersGiveWayToClaims: an invoker whose memory they have is not full.
func TestIdleGPUContainersGiveWayToClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &claiming{fixture: newFixture(t), owner: &fakeOwner{}}
		s := c.gpuSettings(1)
		c.Invoker, c.stop = c.start(s, func(iv *Invoker) { iv.dispatch.claims.owner = c.owner })
		defer c.stop()
		for i := range s.Pool.MemoryMB / 256 {
			name := fmt.Sprint("f", i)
			c.action(name, annotate("true"))
			c.invoke(name, nil)
			synctest.Wait()
		}
		check.Equal(t, c.ReservedMB(), 0, "MB of idle containers are taken")
		c.Acquire(request(1))
		c.want("acquired 1 false")
		c.containers(s.Pool.MemoryMB/256+1, 1)
	})
}

func withClaims(t *testing.T, f func(c *claiming)) {
	synctest.Test(t, func(t *testing.T) {
		c := &claiming{fixture: newFixture(t), owner: &fakeOwner{}}
		c.fixture.action("hello", nil)
		c.begin(c.fixture)
		defer c.stop()
		f(c)
	})
}

func (c *claiming) begin(env *fixture) {
	c.Invoker, c.stop = env.start(env.settings(), func(iv *Invoker) {
		iv.dispatch.claims.owner, iv.completer.ended = c.owner, c.owner.ended
	})
}

func request(id Claim) AcquireRequest {
	return AcquireRequest{
		ID: id, Namespace: "guest", Action: "hello", MemoryMB: 256, Concurrency: 1, Memo: "memo",
		Exec: activation.Exec{Kind: "nodejs:20", Image: "node"},
	}
}

// runs has an activation of a claim run, and waits until all is over.
func (c *claiming) runs(id Claim, change func(*activation.Message)) activation.ID {
	synctest.Wait() // until it is acquired
	c.history = func(d *Delivery) { d.Claim = id }
	one := c.invoke("hello", change)
	synctest.Wait()
	return one
}

func (c *claiming) want(answers ...string) {
	c.t.Helper()
	check.EqualSlices(check.Must(c.t), c.owner.take(), answers)
}

func (c *claiming) containers(made, removed int) {
	c.t.Helper()
	synctest.Wait()
	c.fixture.mu.Lock()
	defer c.fixture.mu.Unlock()
	check.Equal(c.t, c.made, made, "containers were made")
	check.Equal(c.t, c.removed, removed, "containers were removed")
}

func TestClaimedContainerRunsItsActivations(t *testing.T) {
	withClaims(t, func(c *claiming) {
		inits := 0
		c.init = func([]byte) proxy.Exchange { inits++; return answer(200, `{}`) }
		c.Acquire(request(1))
		c.want("acquired 1 false")
		c.runs(1, nil)
		c.runs(1, nil)
		c.containers(1, 0)
		check.Equal(t, inits, 1)
		c.runs(0, nil) // not of the claim: it has another one
		c.containers(2, 0)
		synctest.Wait()
		check.Equal(check.Must(t), len(c.owner.ends), 3)
		e := c.owner.ends[0]
		check.That(check.Must(t), e.Keeps, "end %+v", e)
		check.That(check.Must(t), e.Ran, "end %+v", e)
		check.Equal(t, e.Claim, 1)
		c.fixture.action("other", func(a *activation.Action) { a.Limits.MemoryMB = 2048 })
		c.history = nil
		c.invoke("other", nil)
		pass(time.Hour) // it is neither paused nor evicted
		c.want()
		c.Unclaim(1)
		synctest.Wait()
		c.want()
	})
}

func TestClaimIsRefusedWhereMemoryIsShort(t *testing.T) {
	withClaims(t, func(c *claiming) {
		big := request(1)
		big.MemoryMB = 2048
		c.Acquire(big)
		c.want("acquired 1 false")
		c.Acquire(request(2))
		c.want("refused 2 not enough memory")
		c.Unclaim(1)
		synctest.Wait()
		c.Acquire(request(3))
		c.want("acquired 3 false")
	})
}

func TestClaimHasTheErrorOfItsContainer(t *testing.T) {
	withClaims(t, func(c *claiming) {
		c.create = func(container.Spec) error {
			return &container.CreateError{Blame: container.BlameDeveloper, Message: "Failed to pull container image 'x'."}
		}
		c.Acquire(request(1))
		c.want("refused 1 Failed to pull container image 'x'.")
	})
}

func TestClaimIsPausedAndAcquiredAgain(t *testing.T) {
	withClaims(t, func(c *claiming) {
		c.Acquire(request(1))
		c.want("acquired 1 false")
		c.runs(1, nil)
		c.PauseClaim(1)
		c.want("paused 1 true")
		pass(time.Hour) // its owner removes it, not a timeout
		c.want()
		c.Acquire(request(1))
		c.want("acquired 1 true")
		c.runs(1, nil)
		c.containers(1, 0)
	})
}

func TestPausedClaimIsEvicted(t *testing.T) {
	withClaims(t, func(c *claiming) {
		c.Acquire(request(1))
		c.runs(1, nil)
		c.PauseClaim(1)
		c.want("acquired 1 false", "paused 1 true")
		big := request(2)
		big.MemoryMB = 2048
		c.Acquire(big)
		c.want("lost 1", "acquired 2 false")
		c.containers(2, 1)
	})
}

func TestClaimThatCannotBeResumedGetsANewContainer(t *testing.T) {
	withClaims(t, func(c *claiming) {
		c.Acquire(request(1))
		c.runs(1, nil)
		c.PauseClaim(1)
		c.want("acquired 1 false", "paused 1 true")
		c.resume = func() error { return errors.New("cannot") }
		c.Acquire(request(1))
		c.want("acquired 1 false")
		c.containers(2, 1)
		c.runs(1, nil)
		c.containers(2, 1)
	})
}

func TestClaimThatCannotBePausedIsLost(t *testing.T) {
	withClaims(t, func(c *claiming) {
		c.Acquire(request(1))
		c.runs(1, nil)
		c.pause = func() error { return errors.New("cannot") }
		c.PauseClaim(1)
		c.want("acquired 1 false", "paused 1 false")
		c.containers(1, 1)
	})
}

// The error of a run takes its container with it.
func TestClaimIsLostWithAFailedRun(t *testing.T) {
	withClaims(t, func(c *claiming) {
		c.init = func([]byte) proxy.Exchange { return answer(502, `{"error":"x"}`) }
		c.Acquire(request(1))
		c.runs(1, nil)
		c.want("acquired 1 false", "lost 1")
		c.containers(1, 1)
		e := c.owner.ends[0]
		check.That(t, !e.Keeps, "end %+v", e)
		check.That(t, e.Ran, "end %+v", e)
		c.init = func([]byte) proxy.Exchange { return answer(200, `{}`) }
		c.runs(1, nil) // one that was pulled all the same
		c.containers(2, 1)
	})
}

func TestClaimIsLostWithItsContainer(t *testing.T) {
	withClaims(t, func(c *claiming) {
		c.Acquire(request(1))
		c.want("acquired 1 false")
		c.diedC <- "id1"
		c.want("lost 1")
		c.containers(1, 1)
	})
}

// An action that gets its caller's key does not serve another caller with it.
func TestClaimedContainerServesOneKey(t *testing.T) {
	withClaims(t, func(c *claiming) {
		c.fixture.action("hello", func(a *activation.Action) {
			a.Annotations = activation.Annotations{{Key: "provide-api-key", Value: []byte("true")}}
		})
		c.Acquire(request(1))
		c.runs(1, nil)
		c.containers(1, 0)
		c.runs(1, func(m *activation.Message) { m.User.AuthKey = activation.NewAuthKey("other:s") })
		c.containers(2, 0)
		c.runs(1, nil)
		c.containers(2, 0)
		c.want("acquired 1 false")
	})
}

func TestConcurrentRunsShareAClaimedContainer(t *testing.T) {
	withClaims(t, func(c *claiming) {
		c.fixture.action("hello", func(a *activation.Action) { a.Limits.Concurrency = 3 })
		r := request(1)
		r.Concurrency = 3
		c.Acquire(r)
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

func TestClaimedContainerIsAdoptedPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSurvivors(t)
		e.fixture.action("hello", nil)
		c := &claiming{fixture: e.fixture, owner: &fakeOwner{}}
		c.fixture.follows = true
		c.begin(e.fixture)
		c.Acquire(request(1))
		c.runs(1, nil)
		c.want("acquired 1 false")
		c.stop()
		next := e.process()
		c = &claiming{fixture: next.fixture, owner: &fakeOwner{known: map[string]Claim{"memo": 7}}}
		c.begin(next.fixture)
		defer c.stop()
		c.want()
		c.Acquire(request(7))
		c.want("acquired 7 true")
		c.runs(7, nil)
		c.containers(0, 0)
	})
}
