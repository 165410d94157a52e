package pull

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

const gpuAnnotation = `[{"key":"gpu","value":true}]`

// TestCreationBecomesAContainerThatFetches: a pulled activation is in the journal before
// the invoker has it.
func TestCreationBecomesAContainerThatFetches(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.creation("", "")
		f.want("acquire p/node:1 256 MB", "put namespace", "fetch s0 warmed=false", "ack success", "done")
		id := f.activate(1)
		f.want("keep", "deliver 1")
		h := f.reported()
		check.Equal(t, h.BusyMB, 256)
		check.Equal(t, h.FreeMB, 768)
		check.Equal(t, h.Status, activation.Up)
		f.Notify(invoker.Outcome{ID: id, Pin: 1, Took: time.Second, Keeps: true, Ran: true})
		f.want("fetch s0 warmed=true")
		p := f.Pool()
		check.Equal(t, p.Busy.Total, 1)
		check.Equal(t, p.Busy.Containers[0].Action, "guest/hello")
		h = f.reported()
		check.Equal(t, h.BusyMB, 0)
		check.Equal(t, h.FreeMB, 1024)
	})
}

func TestIdleContainerIsPausedAndResumed(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		id := f.activate(1)
		f.creation("", "")
		pass(100 * time.Millisecond)
		f.Notify(invoker.Outcome{ID: id, Keeps: true, Ran: true})
		pass(12 * time.Second)
		synctest.Wait()
		check.Equal(check.Must(t), len(f.keys), 1)
		for key := range f.keys {
			check.That(t, strings.HasPrefix(key, "whisk/warmed/guest/guest/hello/1-a/invoker/0/container/"), "key %s", key)
		}
		p := f.Pool()
		check.Equal(t, p.Paused.Total, 1)
		check.Equal(t, p.Total, 1)
		check.Equal(t, p.Paused.Containers[0].Kind, "nodejs:20")
		check.Equal(t, f.reported().FreeMB, 1024)
		f.forget()
		f.acquire = func(r invoker.PinRequest) { go f.Notify(invoker.PinReady{ID: r.ID, Warm: true}) }
		f.creation("", "")
		f.want("acquire p/node:1 256 MB", "put namespace", "fetch s0 warmed=true", "delete warmed", "ack success", "done")
	})
}

func TestOrdersThatMakeNoContainer(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.message([]byte(`{"warm":1}`), time.Now())
		f.want("done")
		warm := activation.ContainerCreation{
			TransID: activation.NewTransID("sid_x", 1, false), Queue: activation.WarmUpQueue(), ID: activation.ID(strings.Repeat("0", 32)), Scheduler: "0",
		}
		f.message(warm.Encode(), time.Now())
		f.want("done")
		f.sent(time.Now().Add(-21*time.Second), time.Time{}, "", "[]", `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`)
		f.want("done")
		f.send(time.Now(), `{"kind":"sequence","components":[]}`, "[]", `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`)
		f.want("ack NonExecutbleActionError", "done")
		f.send(time.Now(), `{"kind":"cobol:1","binary":false}`, "[]", `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`)
		f.want("ack WhiskError", "done")
		f.creation(gpuAnnotation, "")
		f.want("ack ResourceNotEnoughError", "done")
		// A creation for an image that must be pulled may be older.
		f.send(time.Now().Add(-100*time.Second), `{"kind":"blackbox","image":"own/x","binary":false}`, "[]", `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`)
		pass(100 * time.Millisecond)
		check.That(t, f.has("ack success"), "a creation of a blackbox action was dropped")
	})
}

// TestCreationIsNotOlderThanTheLastReading: the clock of a scheduler may differ from ours
// by more than a creation's time. A creation that was not in the topic a moment ago is
// new.
func TestCreationIsNotOlderThanTheLastReading(t *testing.T) {
	limits := `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`
	for _, c := range []struct {
		sent, after time.Duration // ago; 0: not known
		want        []string
	}{
		{time.Hour, time.Second, []string{"acquire p/node:1 256 MB", "put namespace", "fetch s0 warmed=false", "ack success", "done"}},
		{time.Hour, time.Minute, []string{"done"}},
		{time.Hour, 0, []string{"done"}},
		{-time.Hour, time.Minute, []string{"acquire p/node:1 256 MB", "put namespace", "fetch s0 warmed=false", "ack success", "done"}},
	} {
		pulling(t, nil, func(f *fixture) {
			after := time.Time{}
			if c.after > 0 {
				after = time.Now().Add(-c.after)
			}
			f.sent(time.Now().Add(-c.sent), after, "", "[]", limits)
			f.want(c.want...)
		})
	}
}

// TestNothingIsFetchedWhileTheJournalIsFull: while the journal is full, fetching stops and
// creations are refused, because a fetched activation could be lost.
func TestNothingIsFetchedWhileTheJournalIsFull(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		id := f.activate(1)
		f.creation("", "")
		pass(100 * time.Millisecond)
		f.forget()
		space := make(chan struct{})
		f.mu.Lock()
		f.full = space
		f.mu.Unlock()
		f.Notify(invoker.Outcome{ID: id, Keeps: true, Ran: true})
		f.activate(2)
		f.want()
		f.creation("", "")
		f.want("ack ResourceNotEnoughError", "done")
		h := f.reported()
		check.Equal(t, h.Status, activation.Unhealthy)
		check.That(t, f.Puller.Stats().Full, "health %+v", h)
		f.mu.Lock()
		f.full = nil
		f.mu.Unlock()
		close(space)
		f.want("fetch s0 warmed=true", "keep", "deliver 1")
		check.Equal(t, f.reported().Status, activation.Up)
	})
}

// TestStopWhileTheJournalIsFull: a stop does not wait for capacity in the journal.
func TestStopWhileTheJournalIsFull(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.mu.Lock()
		f.full = make(chan struct{})
		f.mu.Unlock()
		f.AdoptPin(memo(&activation.ContainerCreation{
			TransID: activation.NewTransID("x", 1, false), ID: activation.ID(strings.Repeat("a", 32)), Scheduler: "0", Endpoint: f.leader,
			Queue: activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: "hello", Version: "0.0.1"}, "1-a"),
		}))
		f.creation("", "")
		pass(100 * time.Millisecond)
		f.forget()
	})
}

func TestErrorsOfContainersInTheWordsOfSchedulers(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{invoker.ErrNoMemory, "ack ResourceNotEnoughError"},
		{&container.CreateError{Blame: container.BlameDeveloper, Message: "Failed to pull"}, "ack BlackBoxError"},
		{&container.CreateError{Blame: container.BlameWhisk, Message: "x"}, "ack WhiskError"},
		{errors.New("x"), "ack WhiskError"},
	} {
		pulling(t, nil, func(f *fixture) {
			f.acquire = func(r invoker.PinRequest) { go f.Notify(invoker.PinRefused{ID: r.ID, Err: c.err}) }
			f.creation("", "")
			f.want("acquire p/node:1 256 MB", c.want, "done")
		})
	}
}

// TestImageThatCannotBePulled: an image that cannot be pulled is not tried again at once,
// and the scheduler ends the queue. Otherwise it would order 10 containers a second.
func TestImageThatCannotBePulled(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.acquire = func(r invoker.PinRequest) {
			go f.Notify(invoker.PinRefused{ID: r.ID, Err: &container.CreateError{Blame: container.BlameDeveloper, Message: "Failed to pull"}})
		}
		create := func(image string) {
			f.send(time.Now(), `{"kind":"blackbox","image":"`+image+`","binary":false}`, "[]", `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`)
		}
		create("own/x:1")
		f.want("acquire own/x:1 256 MB", "ack BlackBoxError", "done")
		create("own/x:1")
		f.want("ack InvalidActionLimitError", "done")
		create("own/y:1")
		f.want("acquire own/y:1 256 MB", "ack BlackBoxError", "done")
		pass(imagePause)
		create("own/x:1") // after the pause the image is tried again
		f.want("acquire own/x:1 256 MB", "ack BlackBoxError", "done")
	})
}

func TestGPUFunctionIsPulledWithoutAContainer(t *testing.T) {
	pulling(t, func(c *Config) { c.GPUs = 1 }, func(f *fixture) {
		f.creation(gpuAnnotation, "")
		f.want("put namespace", "fetch s0 warmed=false", "ack success", "done")
		id := f.activate(1)
		check.That(t, f.has("deliver 0"), "it is not delivered")
		f.Notify(invoker.Outcome{ID: id, Keeps: false})
		f.want("fetch s0 warmed=false") // this fetch was sent with the delivery and is open
		f.Notify(invoker.WarmState{Namespace: "guest", Function: "guest/hello", Revision: "1-a", Warm: true, Resident: true})
		pass(2 * time.Second)
		check.That(t, f.has("fetch s0 warmed=true"), "it is not reported as warm")
		pass(10 * time.Second)
		check.That(check.Must(t), f.has("put warmed"), "after the grace there are %v", f.keys)
		check.Equal(t, len(f.keys), 1, "after the grace there")
		f.creation(gpuAnnotation, "")
		f.want("put namespace", "fetch s0 warmed=true", "delete warmed", "ack success", "done")
		f.reserved.Store(512) // by the GPU scheduler
		check.Equal(t, f.reported().FreeMB, 512)
	})
}

// TestSchedulerThatMoved: a container outlives a scheduler that does not answer.
func TestSchedulerThatMoved(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		id := f.activate(1)
		f.creation("", "")
		pass(100 * time.Millisecond)
		f.mu.Lock()
		f.fetchErr = errors.New("away")
		f.mu.Unlock()
		f.Notify(invoker.Outcome{ID: id, Keeps: true, Ran: true})
		pass(100 * time.Millisecond)
		f.mu.Lock()
		f.log, f.fetchErr, f.leader = nil, nil, activation.Endpoint{Host: "s1", Port: 1}
		close(f.moved)
		f.moved = make(chan struct{})
		f.mu.Unlock()
		f.want("fetch s1 warmed=true")
	})
}

func TestActivationThatIsInProgressIsNotDeliveredAgain(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.known[activation.ID(fmt.Sprintf("%032x", 1))] = true
		f.creation("", "")
		f.want("acquire p/node:1 256 MB", "put namespace", "fetch s0 warmed=false", "ack success", "done")
		f.activate(1)
		f.want("keep", "fetch s0 warmed=false")
		f.activate(2)
		f.want("keep", "deliver 1")
	})
}

// TestHandedOutTwice: a slot whose activation the invoker has already fetches again at once.
func TestHandedOutTwice(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.creation("", "")
		pass(100 * time.Millisecond)
		f.forget()
		id := f.activate(1)
		f.want("keep", "deliver 1")
		f.mu.Lock()
		f.known[id] = true
		f.mu.Unlock()
		f.creation("", "")
		pass(100 * time.Millisecond)
		f.forget()
		f.activate(1)
		f.want("keep", "fetch s0 warmed=false")
		f.activate(2)
		f.want("keep", "deliver 2")
		f.Notify(invoker.Outcome{ID: id, Keeps: true, Ran: true})
		f.want("fetch s0 warmed=true")
		f.activate(3)
		f.want("keep", "deliver 1")
	})
}

func TestDisableDrainsAndEnableResumes(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.creation("", "")
		pass(100 * time.Millisecond)
		f.forget()
		check.That(t, f.Disable(), "nothing changed")
		check.That(t, !f.Disable(), "it changed twice")
		pass(emptyPause)
		f.want("leave", "remove", "delete namespace")
		check.Equal(t, f.reported().Status, activation.Down)
		check.Equal(t, f.Puller.Count(), 0)
		f.creation("", "")
		f.want("ack UnknownError", "done")
		f.Enable()
		check.Equal(t, f.reported().Status, activation.Up)
	})
}

func TestUnhealthyWhileNothingCanBeDone(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.SetUnable("no Docker")
		check.Equal(t, f.reported().Status, activation.Unhealthy)
		f.SetUnable("")
		check.Equal(t, f.reported().Status, activation.Up)
	})
}

// TestStopWaitsForTheFetches: a stop waits for the answers of open fetches, and leaves the
// keys to the end of the lease.
func TestStopWaitsForTheFetches(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.creation("", "")
		pass(100 * time.Millisecond)
		f.forget()
		f.busy = true
		stopped := make(chan struct{})
		go func() { f.Stop(f.Context()); close(stopped) }()
		f.activate(1)
		<-stopped
		check.That(check.Must(t), f.has("deliver 1"), "the activation is not delivered")
		check.Equal(t, f.delivered[0].Kind, "nodejs:20", "the activation is delivered with the kind")
		check.Equal(t, len(f.keys), 1)
	})
}

func TestAdoptedContainerIsKnownToSchedulers(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		c := activation.ContainerCreation{
			TransID: activation.NewTransID("x", 1, false), ID: activation.ID(strings.Repeat("a", 32)), Scheduler: "0",
			Queue: activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: "hello", Version: "0.0.1"}, "1-a"), Endpoint: activation.Endpoint{Host: "s0", Port: 1},
			MetaData: activation.NewActionMetaData([]byte(`{"parameters":"secret"}`)),
		}
		text := memo(&c)
		check.Lacks(t, text, "secret", "the state file has parameters")
		id, ok := f.AdoptPin(text)
		check.That(check.Must(t), ok, "not adopted")
		f.want("put warmed")
		f.acquire = func(r invoker.PinRequest) { go f.Notify(invoker.PinReady{ID: r.ID, Warm: true}) }
		f.creation("", "")
		f.want("acquire p/node:1 256 MB", "put namespace", "fetch s0 warmed=true", "delete warmed", "ack success", "done")
		f.Notify(invoker.PinLost{ID: id})
		_, ok = f.AdoptPin("no memo")
		check.That(t, !ok, "a value that is no memo is adopted")
	})
}

func TestManyContainersHaveKeysOfTheirOwn(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		for range 50 {
			f.creation("", "")
		}
		pass(time.Second)
		synctest.Wait()
		f.mu.Lock()
		keys := len(f.keys)
		first := slices.Index(f.log, "ack success")
		f.mu.Unlock()
		check.Equal(t, keys, 50)
		check.AtLeast(t, first, 0, "nothing was acked")
	})
}

// TestLimitsOfTheNamespaceAreCheckedAtTheCreation: an action beyond its namespace's limits
// is refused with an error that schedulers know. Unreadable limits refuse no action.
func TestLimitsOfTheNamespaceAreCheckedAtTheCreation(t *testing.T) {
	small := 128
	for name, c := range map[string]struct {
		limits activation.UserLimits
		err    error
		asks   string
		want   string
	}{
		"memory":           {activation.UserLimits{MaxMemoryMB: &small}, nil, `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`, "ack InvalidActionLimitError"},
		"the system's own": {activation.UserLimits{}, nil, `{"concurrency":1,"logs":10,"memory":256,"timeout":600000}`, "ack InvalidActionLimitError"},
		"concurrency":      {activation.UserLimits{}, nil, `{"concurrency":5,"logs":10,"memory":256,"timeout":60000}`, "ack InvalidActionLimitError"},
		"within":           {activation.UserLimits{}, nil, `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`, "ack success"},
		"database away":    {activation.UserLimits{}, errors.New("away"), `{"concurrency":1,"logs":10,"memory":256,"timeout":60000}`, "ack success"},
	} {
		t.Run(name, func(t *testing.T) {
			pulling(t, nil, func(f *fixture) {
				f.limits, f.limitsErr = c.limits, c.err
				for range 2 {
					f.creation("", c.asks)
					pass(100 * time.Millisecond)
					check.That(t, f.has(c.want), "no %s", c.want)
				}
				if want := 1; c.err == nil && f.read != want {
					t.Errorf("limits were read %d times", f.read)
				}
			})
		})
	}
}

// TestActivationGoesBackToItsQueue: an activation returns to the scheduler from which it
// came, or else to the queue's leader.
func TestActivationGoesBackToItsQueue(t *testing.T) {
	for name, c := range map[string]struct {
		takes            map[string]bool
		leader           string
		err              error
		want             []string
		returned, failed bool
	}{
		"its scheduler":    {map[string]bool{"s0": true}, "s1", nil, []string{"return s0"}, true, false},
		"the leader":       {map[string]bool{"s1": true}, "s1", nil, []string{"return s0", "return s1"}, true, false},
		"none":             {nil, "s1", nil, []string{"return s0", "return s1"}, false, false},
		"none, one leader": {nil, "s0", nil, []string{"return s0"}, false, false},
		"nobody knows":     {nil, "s1", errors.New("no answer"), []string{"return s0"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			pulling(t, nil, func(f *fixture) {
				f.activate(1)
				f.creation("", "")
				pass(100 * time.Millisecond)
				f.forget()
				f.mu.Lock()
				f.takes, f.returnErr, f.leader = c.takes, c.err, activation.Endpoint{Host: c.leader, Port: 1}
				m := f.delivered[0].Message
				f.mu.Unlock()
				returned, err := f.Puller.Return(t.Context(), m)
				check.Equal(t, returned, c.returned)
				check.That(t, (err != nil) == c.failed, "returned %t, %v", returned, err)
				f.want(c.want...)
			})
		})
	}
}

// TestActivationThatComesBackAtOnce: a returned activation may come again at once by an
// open fetch. It is neither lost nor taken for the returned one, which has not ended yet.
func TestActivationThatComesBackAtOnce(t *testing.T) {
	pulling(t, func(c *Config) { c.GPUs = 1 }, func(f *fixture) {
		f.takes, f.redelivers = map[string]bool{"s0": true}, true
		id := f.activate(1)
		f.creation(gpuAnnotation, "")
		pass(100 * time.Millisecond)
		f.mu.Lock()
		m := f.delivered[0].Message
		f.known[id] = true
		f.mu.Unlock()
		f.forget() // another fetch is open
		returned, err := f.Puller.Return(t.Context(), m)
		check.That(check.Must(t), returned, "%t, %v", returned, err)
		check.NoError(t, err)
		f.want("return s0")
		f.mu.Lock()
		delete(f.known, id) // the invoker's journal forgets it before the end is reported
		f.mu.Unlock()
		f.Notify(invoker.Outcome{ID: id})
		f.want("keep", "deliver 0", "fetch s0 warmed=false")
	})
}

// TestActivationOfAnEarlierProcessGoesBackToTheLeader: an activation of an earlier process
// returns to the queue's leader if there is one.
func TestActivationOfAnEarlierProcessGoesBackToTheLeader(t *testing.T) {
	pulling(t, nil, func(f *fixture) {
		f.takes = map[string]bool{"s0": true}
		f.activate(1)
		m, err := activation.DecodeMessage([]byte(<-f.queue))
		check.NoError(t, err)
		returned, err := f.Puller.Return(t.Context(), m)
		check.That(check.Must(t), returned, "%t, %v", returned, err)
		check.NoError(t, err)
		f.want("return s0")
	})
}

func TestWithoutADeviceNothingIsPulledForGPUs(t *testing.T) {
	pulling(t, func(c *Config) { c.GPUs = 1 }, func(f *fixture) {
		f.creation(gpuAnnotation, "")
		f.want("put namespace", "fetch s0 warmed=false", "ack success", "done")
		f.Notify(invoker.DevicesUsable(false))
		pass(2 * emptyPause)
		f.want("leave", "delete namespace")
		f.creation(gpuAnnotation, "")
		f.want("ack ResourceNotEnoughError", "done")
		f.Notify(invoker.DevicesUsable(true))
		f.creation(gpuAnnotation, "")
		f.want("put namespace", "fetch s0 warmed=false", "ack success", "done")
	})
}
