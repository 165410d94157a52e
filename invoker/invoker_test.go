package invoker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// once runs one activation in a fresh fixture to its end.
func once(t *testing.T, prepare func(env *fixture) activation.ID) (*fixture, activation.ID) {
	t.Helper()
	var env *fixture
	var id activation.ID
	synctest.Test(t, func(t *testing.T) {
		env = newFixture(t)
		id = prepare(env)
		_, stop := env.start(env.settings())
		synctest.Wait()
		stop()
	})
	return env, id
}

// A caller that waits gets its result before the logs are read, unless that takes no
// time: there are none, they are there at once, or they go elsewhere.
func TestAcksFollowTheTable(t *testing.T) {
	type logs struct {
		mb                int
		atOnce, elsewhere bool
		lines             int // in the record
	}
	for _, c := range []struct {
		blocking bool
		logs     logs
		want     string
	}{
		{true, logs{mb: 10, lines: 1}, "result completion"},
		{true, logs{mb: 0}, "combined"},
		{true, logs{mb: 10, atOnce: true, lines: 1}, "combined"},
		{true, logs{mb: 10, elsewhere: true}, "combined"},
		{false, logs{mb: 10, lines: 1}, "completion"},
		{false, logs{mb: 0}, "completion"},
		{false, logs{mb: 10, atOnce: true, lines: 1}, "completion"},
		{false, logs{mb: 10, elsewhere: true}, "completion"},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.logsAtOnce, env.logs = c.logs.atOnce, container.LogResult{Lines: []string{"a line"}}
			env.action("a", func(a *activation.Action) { a.Limits.LogsMB = c.logs.mb })
			s := env.settings()
			s.LogsOutOfBand = c.logs.elsewhere
			_, stop := env.start(s)
			id := env.invoke("a", func(m *activation.Message) { m.Blocking = c.blocking })
			synctest.Wait()
			stop()
			check.Equal(t, strings.Join(env.kinds(id), " "), c.want, "%+v: acks", c)
			rec := env.record(id)
			check.That(check.Must(t), rec != nil, "%+v: record %+v, %d logs read", c, rec, len(env.asked))
			check.Equal(t, len(rec.Logs), c.logs.lines, "%+v: record", c)
			check.Equal(t, len(env.asked), c.logs.lines, "%+v: record", c)
			check.Equal(t, len(env.done), 1, "%+v: done", c)
			check.Equal(t, len(env.events), 1, "%+v: done", c)
		})
	}
}

func TestWhatNeverReachesAContainer(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(env *fixture) activation.ID
		status  int
		text    string
		kind    string
	}{
		{"missing", func(env *fixture) activation.ID { return env.invoke("nope", nil) }, 1, textGone, "unknown"},
		{"missing, of a known kind", func(env *fixture) activation.ID {
			env.history = func(d *Delivery) { d.Kind = "nodejs:20" }
			return env.invoke("nope", nil)
		}, 1, textGone, "nodejs:20"},
		{"too large", func(env *fixture) activation.ID {
			env.action("a", func(a *activation.Action) { a.Limits.MemoryMB = 1024 })
			return env.invoke("a", nil)
		}, 1, "requirement failed: memory size 1024 MB exceeds allowed threshold of 512 MB", "unknown"},
		{"too large for its namespace", func(env *fixture) activation.ID {
			most := 128
			env.action("a", nil)
			return env.invoke("a", func(m *activation.Message) { m.User.Limits.MaxMemoryMB = &most })
		}, 1, `{"error":"requirement failed: memory size 256 MB exceeds allowed threshold of 128 MB"}`, "unknown"},
		{"gpu without a device", func(env *fixture) activation.ID {
			env.action("a", annotate("true"))
			return env.invoke("a", nil)
		}, 1, "this invoker has none", "nodejs:20"},
		{"malformed gpu annotation", func(env *fixture) activation.ID {
			env.action("a", annotate(`{"memroy":"4 GB"}`))
			return env.invoke("a", nil)
		}, 1, "memroy", "nodejs:20"},
	} {
		env, id := once(t, c.prepare)
		rec := env.record(id)
		check.That(check.Must(t), rec != nil, "%s: no record", c.name)
		check.Equal(t, rec.Response.StatusCode, c.status, "%s", c.name)
		check.Contains(t, string(rec.Response.Result), c.text, "%s", c.name)
		kind, _ := rec.Annotations.Text("kind")
		check.Equal(t, kind, c.kind, "%s: kind", c.name)
		check.EqualSlices(t, env.kinds(id), []string{"combined"}, "%s: acks", c.name)
		check.Equal(t, env.made, 0, "%s: acks", c.name)
	}
}

func TestBlockedNamespaceGetsTheShortestAck(t *testing.T) {
	env, id := once(t, func(env *fixture) activation.ID {
		env.action("a", nil)
		return env.invoke("a", func(m *activation.Message) { m.User.Namespace.Name = "blocked" })
	})
	check.That(check.Must(t), env.record(id) == nil, "record %v, events %d, acks %+v", env.record(id), len(env.events), env.acks)
	check.Equal(check.Must(t), len(env.events), 0)
	check.Equal(check.Must(t), len(env.acks), 1)
	check.That(check.Must(t), env.acks[0].Record == nil, "record %v, events %d, acks %+v", env.record(id), len(env.events), env.acks)
	check.Equal(check.Must(t), len(env.done), 1, "the message was not done")
}

func TestFailuresOfContainersAndActions(t *testing.T) {
	whisk := &container.CreateError{Blame: container.BlameWhisk, Message: "Failed to provision resources to run the action."}
	user := &container.CreateError{Blame: container.BlameDeveloper, Message: "Failed to pull container image 'x'."}
	for _, c := range []struct {
		name   string
		change func(env *fixture)
		status int
		text   string
		acks   []string
	}{
		{"creation fails", func(env *fixture) { env.create = func(container.Spec) error { return whisk } }, 3, whisk.Message, []string{"combined"}},
		{"image cannot be pulled", func(env *fixture) { env.create = func(container.Spec) error { return user } }, 2, user.Message, []string{"combined"}},
		{"creation panics", func(env *fixture) { env.create = func(container.Spec) error { panic("engine bug") } }, 3, proxy.TextAbnormal, []string{"combined"}},
		{"init fails", func(env *fixture) {
			env.init = func([]byte) proxy.Exchange { return answer(502, `{"error":"bad code"}`) }
		}, 2, "bad code", []string{"result", "completion"}},
		{"init says 503", func(env *fixture) { env.init = func([]byte) proxy.Exchange { return answer(503, ``) } }, 2, proxy.TextNotInitialized, []string{"result", "completion"}},
		{"application error", func(env *fixture) {
			env.run = func(int, []byte) proxy.Exchange { return answer(200, `{"error":"no"}`) }
		}, 1, `"no"`, []string{"result", "completion"}},
		{"run says 503", func(env *fixture) { env.run = func(int, []byte) proxy.Exchange { return answer(503, ``) } }, 2, proxy.TextAbnormal, []string{"result", "completion"}},
		{"connection breaks", func(env *fixture) {
			env.run = func(int, []byte) proxy.Exchange { return proxy.Exchange{Failure: proxy.NoResponse} }
		}, 2, proxy.TextAbnormal, []string{"result", "completion"}},
		{"out of memory", func(env *fixture) {
			env.oom = true
			env.run = func(int, []byte) proxy.Exchange { return proxy.Exchange{Failure: proxy.NoResponse} }
		}, 2, "exhausted its memory", []string{"result", "completion"}},
		{"run panics", func(env *fixture) { env.run = func(int, []byte) proxy.Exchange { panic("client bug") } }, 3, proxy.TextAbnormal, []string{"combined"}},
	} {
		env, id := once(t, func(env *fixture) activation.ID {
			env.action("a", nil)
			c.change(env)
			return env.invoke("a", nil)
		})
		rec := env.record(id)
		check.That(check.Must(t), rec != nil, "%s: record %+v, want status %d and %q", c.name, rec, c.status, c.text)
		check.Equal(t, rec.Response.StatusCode, c.status, "%s: record", c.name)
		check.Contains(t, string(rec.Response.Result), c.text, "%s: record", c.name)
		check.EqualSlices(t, env.kinds(id), c.acks, "%s: acks", c.name)
		check.Equal(t, len(env.done), 1, "%s: done", c.name)
	}
}

// TestDeathDuringInit: no run waits for a proxy whose container has ended, even if
// its death is reported before its creation.
func TestDeathDuringInit(t *testing.T) {
	for _, early := range []bool{true, false} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("a", nil)
			env.create = func(container.Spec) error {
				if early {
					env.diedC <- "id1"
					time.Sleep(time.Second)
				}
				return nil
			}
			env.hang = true
			began := time.Now()
			_, stop := env.start(env.settings())
			id := env.invokeAndWait("a", 2*time.Second)
			if !early {
				env.diedC <- "id1"
			}
			stop()
			rec := env.record(id)
			check.That(check.Must(t), rec != nil, "early %t: record %+v after %s", early, rec, time.Since(began))
			check.Equal(t, rec.Response.StatusCode, 2, "early %t: record", early)
			check.AtMost(t, time.Since(began), 3*time.Second, "early %t: record", early)
		})
	}
}

func TestNothingIsPulledWithoutPermit(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("a", nil)
		block := make(chan struct{})
		env.run = func(int, []byte) proxy.Exchange { <-block; return answer(200, `{}`) }
		s := env.settings()
		s.InFlight = 4
		iv, stop := env.start(s)
		for range 10 {
			env.invoke("a", nil)
		}
		synctest.Wait()
		check.Equal(t, len(env.feed), 6)
		check.Equal(t, iv.InFlight(), 4)
		close(block)
		synctest.Wait()
		stop()
		check.Equal(t, len(env.done), 10)
	})
}

// TestDrainDeadline: an activation that is not finished in time is not marked done at the
// feed, so that it is delivered again. The process still ends.
func TestDrainDeadline(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("a", nil)
		hang := make(chan struct{})
		env.run = func(int, []byte) proxy.Exchange {
			<-hang
			return proxy.Exchange{Failure: proxy.Cancelled}
		}
		_, stop := env.start(env.settings())
		env.invokeAndWait("a", 0)
		go func() {
			time.Sleep(2 * time.Minute)
			close(hang)
		}()
		stop()
		check.Equal(check.Must(t), len(env.done), 0)
		check.Equal(check.Must(t), len(env.records), 0)
	})
}

// A connection that outlives its container keeps the container's address from
// the next container that gets it.
func TestClientsCloseBeforeContainers(t *testing.T) {
	env, _ := once(t, func(env *fixture) activation.ID {
		env.action("a", nil)
		return env.invoke("a", nil)
	})
	check.Equal(check.Must(t), len(env.cleaned), 2, "connections ended when containers were removed at start and end")
	check.That(t, env.cleaned[1] != 0, "connections ended when containers were removed at start and end: %v, want none and some", env.cleaned)
}

func TestStoreOff(t *testing.T) {
	off := false
	env, id := once(t, func(env *fixture) activation.ID {
		env.action("a", nil)
		return env.invoke("a", func(m *activation.Message) { m.User.Limits.StoreActivations = &off })
	})
	check.That(check.Must(t), env.record(id) == nil, "record %v, done %v", env.record(id), env.done)
	check.Equal(check.Must(t), len(env.done), 1)
}

func TestStoreLevels(t *testing.T) {
	m := &activation.Message{Blocking: true}
	for _, c := range []struct {
		level StoreLevel
		want  [4]bool
	}{
		{StoreAlways, [4]bool{true, true, true, true}},
		{StoreFailures, [4]bool{false, true, true, true}},
		{StoreFailuresNotApplication, [4]bool{false, false, true, true}},
	} {
		for status, want := range c.want {
			p := StorePolicy{Blocking: c.level}
			check.Equal(t, p.keeps(ofPending(m, nil), activation.Response{StatusCode: status}), want, "level %d, status %d: kept", c.level, status)
		}
	}
	m.TransID = activation.NewTransID("t", 1, true)
	check.That(t, (StorePolicy{Blocking: StoreFailures}).keeps(ofPending(m, nil), activation.Response{}), "extra logging did not keep the record")
}
