package invoker

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
)

// tracesOf is the trace of an activation in one text.
func tracesOf(t *testing.T, iv *Invoker, id activation.ID) string {
	t.Helper()
	a, ok := iv.Explain().Find(string(id))
	check.That(check.Must(t), ok, "no account of %s", id)
	var lines []string
	for _, s := range explain.Describe(&a) {
		lines = append(lines, s.Text)
	}
	return strings.Join(lines, "\n")
}

func holds(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		check.Contains(t, text, w)
	}
}

func TestAccountsOfGPURuns(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f", "g")
		env.lasting(200 * time.Millisecond)
		s := env.gpuSettings(1)
		s.Explain = 100
		iv, stop := env.start(s)
		cold := env.invokeAndWait("f", time.Second)
		env.invokeAndWait("g", time.Second)
		warm := env.invokeAndWait("f", time.Millisecond)
		behind := env.invokeAndWait("f", 5*time.Second)
		stop()
		holds(t, tracesOf(t, iv, cold), "Accepted", "Did not wait", "Started cold on GPU 0 (test, simulated)",
			"Ran 200 ms alone on the device", "held 10 GB", "Answered with success", "Its record, written in a batch of 12, and its acks were safe")
		holds(t, tracesOf(t, iv, warm), "Started host-warm")
		// Its container is busy, and there is no memory for a second one.
		holds(t, tracesOf(t, iv, behind), "Waited 199 ms, because neither device memory nor a container was free")
	})
}

// TestTraceOfAThrottledRun: a flow that leads by too much waits, and its trace names the flow
// in front of it and the reason.
func TestTraceOfAThrottledRun(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		for _, name := range []string{"greedy", "modest"} {
			env.action(name, annotate(`{"memory":"1 GB"}`))
		}
		env.lasting(2 * time.Second)
		s := env.gpuSettings(1)
		s.Explain, s.GPU.Tokens.Max = 100, 1
		s.GPU.Sched.Overrun = time.Second
		iv, stop := env.start(s)
		for range 4 {
			env.invoke("greedy", nil)
		}
		pass(3 * time.Second)
		for range 3 {
			env.invoke("modest", nil)
		}
		pass(time.Millisecond)
		last := env.invokeAndWait("greedy", time.Minute)
		stop()
		holds(t, tracesOf(t, iv, last), "Waited", "calls of its own function", "of guest/modest", "lead over the others was", "1.00 s is allowed")
	})
}

// TestTraceOfARunAlone: a run that is answered and whose logs are read is no company.
func TestTraceOfARunAlone(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.logging = func() { pass(time.Second) }
		for _, name := range []string{"f", "g"} {
			env.action(name, annotate(`{"memory":"1 GB"}`))
		}
		env.lasting(200 * time.Millisecond)
		s := env.gpuSettings(1)
		s.Explain, s.GPU.Tokens.Max = 100, 1
		iv, stop := env.start(s)
		env.invokeAndWait("f", time.Millisecond)
		second := env.invokeAndWait("g", time.Minute)
		stop()
		holds(t, tracesOf(t, iv, second), "Waited 199 ms", "Ran 200 ms alone on the device")
	})
}

// TestTraceOfALongWait: the trace shows why an activation waited when it came.
func TestTraceOfALongWait(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("gpu", annotate("true"))
		s := env.aSecond()
		s.Explain = 100
		iv, stop := env.start(s)
		var last activation.ID
		for range 20 {
			last = env.invokeAndWait("gpu", 0)
		}
		pass(time.Minute)
		stop()
		holds(t, tracesOf(t, iv, last), "Accepted", "Waited 19", "behind 18 calls of its own function", "because every device had as many runs as it takes at once", "Ran 1.00 s")
	})
}

func TestAccountsOfOthers(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("plain", nil)
		s := env.settings()
		s.Explain = 2
		iv, stop := env.start(s)
		none := env.invokeAndWait("absent", time.Second)
		holds(t, tracesOf(t, iv, none), "Did not run: "+textGone)
		cold := env.invokeAndWait("plain", time.Second)
		warm := env.invokeAndWait("plain", time.Second)
		stop()
		holds(t, tracesOf(t, iv, cold), "Started cold: there was no container", "Ran")
		holds(t, tracesOf(t, iv, warm), "Started warm")
		_, ok := iv.Explain().Find(string(none))
		check.That(t, !ok, "three accounts are kept where two may be")
	})
}

// TestTracesOfBadAnnotationsRepeatNone of their text, which the action's author alone is
// told.
func TestTracesOfBadAnnotationsRepeatNone(t *testing.T) {
	const secret = "s3cret-value"
	for _, c := range []struct{ annotation, cause string }{
		{`"` + secret + `"`, "annotation gpu: allowed is true, false, or an object"},
		{`{"` + secret + `":1}`, "annotation gpu: allowed is only the keys memory"},
		{`{"memory":"` + secret + `"}`, "annotation gpu: key memory: allowed is a size"},
		{`{"limit":["` + secret + `"]}`, "annotation gpu: key limit: allowed is a size"},
		{`{"weight":"` + secret + `"}`, "annotation gpu: key weight: allowed is a number"},
		{`{"shim":"` + secret + `"}`, "annotation gpu: key shim: allowed is managed"},
		{`{"concurrency":"` + secret + `"}`, "annotation gpu: key concurrency: allowed is a whole number"},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate(c.annotation))
			s := env.gpuSettings(1)
			s.Explain = 1
			iv, stop := env.start(s)
			id := env.invokeAndWait("f", time.Second)
			stop()
			check.Contains(t, string(env.record(id).Response.Result), secret, "the answer to the author")
			check.Contains(t, tracesOf(t, iv, id), "Did not run: "+c.cause)
			check.Lacks(t, tracesOf(t, iv, id), secret)
		})
	}
}
