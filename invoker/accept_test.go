package invoker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// away is a database that does not answer until the context ends.
type away struct{}

func (away) Cached(string, string) (*activation.Action, bool) { return nil, false }

func (away) Action(ctx context.Context, id, _ string) (*activation.Action, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("get %s: %w", id, context.Cause(ctx))
}

// An activation that waits for the database when the invoker ends gets no
// answer: an error would blame a database that may work again by the time the next
// process asks it.
func TestStopWhileTheDatabaseIsAway(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		s := env.settings()
		s.Drain = time.Second
		_, stop := env.start(s, func(iv *Invoker) { iv.ports.Actions = away{} })
		id := env.invokeAndWait("f", 0)
		stop()
		synctest.Wait()
		kinds := env.kinds(id)
		check.Equal(t, len(kinds), 0)
		check.That(t, env.record(id) == nil, "acks %v, record %v, done %v; want nothing of an activation that comes again", kinds, env.record(id), env.done)
		check.Equal(t, len(env.done), 0)
	})
}

// The history of an activation decides whether it runs: it runs if it had not begun, and
// does not run if it is completed. An interrupted activation runs again only if that is
// allowed and it has not ended too many processes. It is answered once, and the answer is no
// failure of this invoker for the controller.
func TestWhatAnEarlierProcessLeft(t *testing.T) {
	for _, c := range []struct {
		name     string
		past     delivery.History
		setting  bool
		recorded string // the annotation rerun; empty: none
		runs     int
		answered string // part of the error; empty: the action's answer
		acks     int
	}{
		{name: "new", runs: 1, acks: 1},
		{name: "begun", past: delivery.History{Begun: true, Attempts: 1}, answered: "The invoker ended while the action ran.", acks: 1},
		{name: "begun, stopped in order", past: delivery.History{Begun: true}, answered: "The invoker ended while the action ran.", acks: 1},
		{name: "begun, rerun by setting", past: delivery.History{Begun: true, Attempts: 1}, setting: true, runs: 1, acks: 1},
		{name: "begun, rerun by annotation", past: delivery.History{Begun: true, Attempts: 2}, recorded: "true", runs: 1, acks: 1},
		{name: "begun, not by annotation", past: delivery.History{Begun: true, Attempts: 1}, setting: true, recorded: "false", answered: "The invoker ended while", acks: 1},
		{name: "ended three invokers", past: delivery.History{Begun: true, Attempts: 3}, setting: true, recorded: "true", answered: "The invoker ended 3 times", acks: 1},
		{name: "completed", past: delivery.History{Completed: true}, setting: true},
		{name: "completed, and had begun", past: delivery.History{Begun: true, Completed: true, Attempts: 1}, setting: true},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.logsAtOnce = true
			env.history = func(d *Delivery) {
				d.History = c.past
			}
			env.action("f", func(a *activation.Action) {
				if c.recorded != "" {
					a.Annotations = activation.Annotations{{Key: "rerun", Value: []byte(c.recorded)}}
				}
			})
			s := env.settings()
			s.Rerun = c.setting
			_, stop := env.start(s)
			id := env.invokeAndWait("f", 0)
			stop()
			check.Equal(t, env.made, c.runs, "%s: ran", c.name)
			check.Equal(check.Must(t), len(env.acks), c.acks, "%s", c.name)
			check.Equal(check.Must(t), len(env.records), c.acks, "%s", c.name)
			check.Equal(check.Must(t), len(env.done), 1, "%s", c.name)
			if c.acks == 0 {
				return
			}
			rec := env.record(id)
			want := activation.StatusSuccess
			if c.answered != "" {
				want = activation.StatusWhiskError
			}
			check.Equal(t, rec.Response.StatusCode, want, "%s", c.name)
			check.Contains(t, string(rec.Response.Result), c.answered, "%s", c.name)
			check.That(t, !env.acks[0].SystemError, "%s: the controller receives a system error", c.name)
		})
	}
}

// forwarding is a fixture with one GPU action whose invoker has no GPU, and names others
// that have one.
func forwarding(t *testing.T) (*fixture, Settings) {
	env := newFixture(t)
	env.action("f", annotate("true"))
	env.gpuHosts = fakeGPUHosts{}
	s := env.settings()
	s.GPU.Forwards = true
	return env, s
}

// A forwarded activation has no ack and no record here, and names the invoker whose slot it
// takes.
func TestForwardWithoutDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, s := forwarding(t)
		_, stop := env.start(s)
		id := env.invokeAndWait("f", 0)
		stop()
		check.Equal(check.Must(t), len(env.forwarded), 1)
		check.Equal(check.Must(t), env.forwarded[0].invoker, 9)
		check.Equal(check.Must(t), len(env.acks), 0)
		check.Equal(check.Must(t), len(env.records), 0)
		check.Equal(check.Must(t), len(env.done), 1)
		m, err := activation.DecodeMessage(env.forwarded[0].message)
		check.NoError(t, err)
		check.Equal(t, m.ActivationID, id)
		check.That(check.Must(t), m.Forwarded != nil, "passed on as %+v, forwarded %+v", m, m.Forwarded)
		check.Equal(t, m.Forwarded.Hops, 1)
		check.Equal(t, m.Forwarded.Instance.String(), s.Instance.String())
	})
}

// The ack of a forwarded activation frees the slot that the controller took.
func TestForwardedIsAckedForItsFirstInvoker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, logs := range []int{0, 10} {
			env := newFixture(t)
			env.action("f", func(a *activation.Action) { a.Limits.LogsMB = logs })
			_, stop := env.start(env.settings())
			first := activation.Instance{ID: 7, UniqueName: "7", UserMemory: 1 << 30}
			for _, blocking := range []bool{true, false} {
				env.invoke("f", func(m *activation.Message) {
					m.Blocking, m.Forwarded = blocking, &activation.Forwarded{Instance: first, Hops: 1}
				})
			}
			synctest.Wait()
			stop()
			freed := 0
			for _, a := range env.acks {
				if a.FreesSlot() {
					freed++
					check.Equal(t, a.Instance.String(), first.String(), "%s ack", a.Kind)
				}
			}
			check.Equal(t, freed, 2, "acks free a slot")
		}
	})
}

// An activation that cannot be passed on is answered here, once, with the reason.
func TestForwardThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			err    error
			hosts  error
			hops   int
			status int
			want   string
		}{
			"refused":  {err: errors.New("topic authorization failed"), status: activation.StatusWhiskError, want: "topic authorization failed"},
			"a circle": {hops: maxHops, status: activation.StatusWhiskError, want: "no GPU"},
			"no host":  {hosts: errors.New("none of invoker9 takes work"), status: activation.StatusApplicationError, want: "none of invoker9 takes work"},
		} {
			env, s := forwarding(t)
			env.forwardErr, env.gpuHosts = c.err, fakeGPUHosts{c.hosts}
			_, stop := env.start(s)
			id := env.invoke("f", func(m *activation.Message) {
				if c.hops > 0 {
					m.Forwarded = &activation.Forwarded{Instance: activation.Instance{ID: 7, UserMemory: 1}, Hops: c.hops}
				}
			})
			synctest.Wait()
			stop()
			rec := env.record(id)
			kinds := env.kinds(id)
			check.Equal(check.Must(t), len(kinds), 1, "%s: acks", name)
			check.Equal(check.Must(t), kinds[0], "combined", "%s: acks", name)
			check.That(check.Must(t), rec != nil, "%s: acks %v, record %v, done %v", name, kinds, rec, env.done)
			check.Equal(check.Must(t), len(env.done), 1, "%s: acks", name)
			var logged struct{ Error string }
			check.NoError(t, json.Unmarshal(rec.Response.Result, &logged), "%s", name)
			check.Equal(t, rec.Response.StatusCode, c.status, "%s", name)
			check.Contains(t, logged.Error, c.want, "%s", name)
			check.Contains(t, logged.Error, "whisk.gpu.forward-to", "%s", name)
		}
	})
}

// An invoker that loses its last GPU passes on the waiting activations and the new ones. They
// wait here while no other invoker takes them, and after the last hop.
func TestLostDevicesForward(t *testing.T) {
	for name, c := range map[string]struct {
		hosts fakeGPUHosts
		hops  int
		away  int
	}{
		"to another":      {away: 4},
		"no other":        {hosts: fakeGPUHosts{errors.New("none")}},
		"after two hops":  {hops: maxHops},
		"after the first": {hops: 1, away: 4},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate("true"))
			env.gpuHosts = c.hosts
			s := env.aSecond()
			s.GPU.Forwards, s.GPU.DeviceTimeout = true, 5*time.Minute
			iv, stop := env.start(s)
			invoke := func() activation.ID {
				return env.invoke("f", func(m *activation.Message) {
					if c.hops > 0 {
						m.Forwarded = &activation.Forwarded{Instance: activation.Instance{ID: 7, UserMemory: 1}, Hops: c.hops}
					}
				})
			}
			for range 4 {
				invoke()
			}
			pass(500 * time.Millisecond) // one runs
			iv.DeviceLost(0, "Xid 79")
			pass(100 * time.Millisecond)
			invoke()
			pass(100 * time.Millisecond)
			_, usable := iv.GPUBacklog()
			check.That(t, !usable, "%s", name)
			iv.DeviceBack(0)
			pass(time.Minute)
			stop()
			check.Equal(t, len(env.forwarded), c.away, "%s: passed on", name)
			check.Equal(t, len(env.records), 5-c.away, "%s: ended here", name)
			for _, f := range env.forwarded {
				m, err := activation.DecodeMessage(f.message)
				check.NoError(t, err)
				check.Equal(t, m.Forwarded.Hops, c.hops+1, "%s", name)
			}
		})
	}
}

// closedOutbox queues no message, because flushing is over.
type closedOutbox struct{ Outbox }

func (closedOutbox) Forward(context.Context, int, []byte, func(error)) error {
	return errors.New("closed")
}

// An activation whose message could not be queued is left to the next process, which may run
// it: the journal says that no other invoker has the activation.
func TestForwardAfterFlushing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, s := forwarding(t)
		r := &fakeReturner{entries: map[activation.ID][]string{}}
		iv, stop := env.start(s, func(iv *Invoker) {
			iv.ports.Outbox, iv.completer.journal = closedOutbox{env}, handbackJournal{env, r}
		})
		id := env.invoke("f", nil)
		synctest.Wait()
		check.Equal(t, iv.InFlight(), 0)
		stop()
		check.DeepEqual(t, r.entries[id], []string{"offer", "withdraw"})
		check.Equal(t, len(env.kinds(id)), 0, "acks")
		check.That(t, env.record(id) == nil, "there is a record")
		check.Equal(t, len(env.done), 0, "completed messages")
	})
}

// panicking panics when it is asked for a GPU invoker, or to give an activation back.
type panicking struct{ *fakeReturner }

func (panicking) Choose(context.Context, string, string) (int, error) { panic("a fault") }

func (panicking) Return(context.Context, *activation.Message) (bool, error) { panic("a fault") }

// A panic outside of a run ends its activation, and the invoker goes on.
func TestPanicOutsideARun(t *testing.T) {
	for name, c := range map[string]struct {
		devices   bool // there is a device, which is lost while activations wait
		scheduler bool // the activations come from a scheduler
	}{
		"a forwarded activation at its admission":       {},
		"an activation that is forwarded after waiting": {devices: true},
		"an activation that goes back to its scheduler": {devices: true, scheduler: true},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			faulty := panicking{&fakeReturner{}}
			env.action("f", annotate("true"))
			env.gpuHosts = faulty
			s := env.settings()
			if c.devices {
				s = env.aSecond()
			}
			s.GPU.Forwards = true
			iv, stop := env.start(s, func(iv *Invoker) {
				if c.scheduler {
					observe(iv, faulty)
				}
			})
			ids := []activation.ID{env.invoke("f", nil)}
			pass(500 * time.Millisecond)
			ids = append(ids, env.invoke("f", nil))
			if c.devices { // the first activation runs there
				ids = ids[1:]
				pass(100 * time.Millisecond)
				iv.DeviceLost(0, "Xid 79")
			}
			pass(time.Minute)
			for _, id := range ids {
				rec := env.record(id)
				check.That(check.Must(t), rec != nil, "%s: no record", name)
				check.Contains(t, string(rec.Response.Result), proxy.TextAbnormal, "%s", name)
				check.Equal(t, len(env.kinds(id)), 1, "%s: acks", name)
			}
			check.Equal(t, iv.InFlight(), 0, "%s", name)
			stop()
			check.Equal(t, len(env.done), 2, "%s: completed messages", name)
		})
	}
}
