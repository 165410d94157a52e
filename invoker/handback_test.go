package invoker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// fakeReturner plays schedulers that take activations back, or do not.
type fakeReturner struct {
	fakeEvents
	takes   bool
	err     error
	disk    error // of the journal
	back    map[activation.ID]int
	usable  []bool
	entries map[activation.ID][]string // of the journal, and the returns between them
}

// handbackJournal is a journal that records how activations go back.
type handbackJournal struct {
	Journal
	r *fakeReturner
}

func (j handbackJournal) BeginHandback(id activation.ID) error {
	j.r.add(id, "offer")
	return j.r.disk
}

func (j handbackJournal) AbortHandback(id activation.ID) { j.r.add(id, "withdraw") }
func (j handbackJournal) Completed(id activation.ID)     { j.r.add(id, "completed") }

func (j handbackJournal) CommitHandback(id activation.ID) error {
	j.r.add(id, "forget")
	return nil
}

func (r *fakeReturner) add(id activation.ID, entry string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[id] = append(r.entries[id], entry)
}

// wrote compares the entries of n activations. The others only ran. While a scheduler may
// have an activation, the journal counts it as begun.
func (r *fakeReturner) wrote(t *testing.T, n int, want []string) {
	t.Helper()
	for id, got := range r.entries {
		if len(got) > 1 {
			check.DeepEqual(t, got, want, "%s", id)
			n--
		}
	}
	check.Equal(t, n, 0)
}

func (r *fakeReturner) Return(_ context.Context, m *activation.Message) (bool, error) {
	pass(10 * time.Millisecond)
	r.add(m.ActivationID, "return")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back[m.ActivationID]++
	return r.takes, r.err
}

func (r *fakeReturner) Notify(e Event) {
	r.fakeEvents.Notify(e)
	if usable, ok := e.(DevicesUsable); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.usable = append(r.usable, bool(usable))
	}
}

// givesBack runs six activations of which some wait when stop is called, and compares
// how many run here, are given back, and are answered as nobody's.
func givesBack(t *testing.T, env *fixture, s Settings, r *fakeReturner, end func(iv *Invoker, stop func()), run, back, unknown int) {
	t.Helper()
	r.back, r.ends, r.entries = map[activation.ID]int{}, nil, map[activation.ID][]string{}
	env.fetched = true
	env.run = func(int, []byte) proxy.Exchange {
		pass(10 * time.Second)
		return answer(200, `{"ok":true}`)
	}
	iv, stop := env.start(s, func(iv *Invoker) {
		observe(iv, r)
		iv.completer.journal = handbackJournal{env, r}
	})
	var ids []activation.ID
	for range 6 {
		ids = append(ids, env.invoke("f", nil))
	}
	pass(time.Second)
	end(iv, stop)
	var got [3]int
	for _, id := range ids {
		rec := env.record(id)
		switch {
		case rec == nil && r.back[id] == 1:
			got[1]++
		case rec != nil && rec.Response.StatusCode == activation.StatusSuccess && r.back[id] <= 1:
			got[0]++
		case rec != nil && strings.Contains(string(rec.Response.Result), textNotReturned):
			got[2]++
		default:
			t.Errorf("%s: record %+v, given back %d times", id, rec, r.back[id])
		}
	}
	check.Equal(t, got, [3]int{run, back, unknown}, "%v ran, were given back, or are unknown; want %d, %d, %d", got, run, back, unknown)
	check.Equal(t, len(r.ends), 6)
	check.Equal(t, len(env.done), 6)
	check.Equal(t, iv.InFlight(), 0)
}

func TestStopGivesBackWhatHasNotStarted(t *testing.T) {
	for name, c := range map[string]struct {
		r                  *fakeReturner
		disk               error
		run, back, unknown int
		journal            []string // of the activations that wait when the stop begins
	}{
		"taken":              {&fakeReturner{takes: true}, nil, 2, 4, 0, []string{"offer", "return", "forget"}},
		"not taken":          {&fakeReturner{}, nil, 6, 0, 0, []string{"offer", "return", "withdraw", "completed"}},
		"nobody knows":       {&fakeReturner{err: errors.New("no answer")}, nil, 2, 0, 4, []string{"offer", "return", "completed"}},
		"the disk is unwell": {&fakeReturner{takes: true}, errors.New("disk"), 6, 0, 0, []string{"offer", "withdraw", "completed"}},
	} {
		c.r.disk = c.disk
		t.Run(name+", on a GPU", func(t *testing.T) {
			withFixture(t, func(t *testing.T, env *fixture) {
				env.action("f", annotate("true"))
				givesBack(t, env, env.gpuSettings(1), c.r, func(_ *Invoker, stop func()) { stop() }, c.run, c.back, c.unknown)
				c.r.wrote(t, 4, c.journal)
			})
		})
		t.Run(name+", without", func(t *testing.T) {
			withFixture(t, func(t *testing.T, env *fixture) {
				env.action("f", func(a *activation.Action) { a.Limits.MemoryMB = 512 })
				s := env.settings()
				s.Pool.MemoryMB = 1024
				givesBack(t, env, s, c.r, func(_ *Invoker, stop func()) { stop() }, c.run, c.back, c.unknown)
				c.r.wrote(t, 4, c.journal)
			})
		})
	}
}

// Without its last device an invoker gives back the waiting activations and the new ones. It
// runs those itself that nobody takes, when a device is back.
func TestLossOfTheLastDeviceGivesBackWhatWaits(t *testing.T) {
	lose := func(iv *Invoker, stop func()) {
		iv.DeviceLost(0, "Xid 79")
		pass(time.Second)
		iv.DeviceBack(0)
		pass(time.Minute)
		stop()
	}
	for name, c := range map[string]struct {
		r         *fakeReturner
		run, back int
	}{
		"taken":     {&fakeReturner{takes: true}, 0, 4},
		"not taken": {&fakeReturner{}, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(t *testing.T, env *fixture) {
				env.action("f", annotate("true"))
				c.r.back, c.r.entries = map[activation.ID]int{}, map[activation.ID][]string{}
				var ids []activation.ID
				env.run = func(int, []byte) proxy.Exchange {
					pass(10 * time.Second)
					return answer(200, `{"ok":true}`)
				}
				env.stall = func(int) (bool, bool) { return true, true } // those that run end with the device
				iv, stop := env.start(env.gpuSettings(1), func(iv *Invoker) { observe(iv, c.r) })
				for range 2 {
					ids = append(ids, env.invoke("f", nil))
				}
				pass(time.Second)
				env.setStall(nil)
				for range 4 {
					ids = append(ids, env.invoke("f", nil))
				}
				pass(time.Second)
				lose(iv, stop)
				ran, back := 0, 0
				for _, id := range ids[2:] {
					if rec := env.record(id); rec == nil && c.r.back[id] == 1 {
						back++
					} else if rec != nil && rec.Response.StatusCode == activation.StatusSuccess {
						ran++
					}
				}
				check.Equal(t, ran, c.run)
				check.Equal(t, back, c.back)
				check.Equal(check.Must(t), len(c.r.usable), 2)
				check.That(t, !c.r.usable[0], "devices %v", c.r.usable)
				check.That(t, c.r.usable[1], "devices %v", c.r.usable)
			})
		})
	}
}

// TestStopLeavesWhatCannotStartInTime: a stop waits for running activations. It does not wait for the
// calls of a function that pauses after failures beyond the stop's deadline: the next process
// gets these calls.
func TestStopLeavesWhatCannotStartInTime(t *testing.T) {
	for name, c := range map[string]struct {
		runs  time.Duration // of a call of another function, when the stop begins
		fails time.Duration // how long the failing calls take
		begin time.Duration // of the stop
		want  time.Duration // that it takes
	}{
		"paused before the stop": {3 * time.Second, time.Second, 2500 * time.Millisecond, 3 * time.Second},
		"paused during the stop": {0, 5 * time.Second, 8 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(t *testing.T, env *fixture) {
				env.action("f", annotate(`{"memory":"1 GB"}`))
				env.action("g", nil)
				env.run = func(_ int, body []byte) proxy.Exchange {
					if strings.Contains(string(body), `"whole":true`) {
						pass(c.runs)
						return answer(200, `{}`)
					}
					pass(c.fails)
					return proxy.Exchange{Failure: proxy.NoResponse, Sent: true}
				}
				s := env.gpuSettings(1)
				s.Drain = 8 * time.Second
				iv, stop := env.start(s)
				for range 6 {
					env.invoke("f", nil)
				}
				pass(c.begin)
				other := env.invoke("g", func(m *activation.Message) { m.Content = json.RawMessage(`{"whole":true}`) })
				synctest.Wait()
				began := time.Now()
				stop()
				check.Equal(t, time.Since(began), c.want, "the stop took")
				env.ok(other)
				check.Equal(t, iv.InFlight(), 0)
				check.Equal(t, len(env.done), 5, "settled messages: two calls are delivered again")
			})
		})
	}
}
