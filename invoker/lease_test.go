package invoker

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// TestEndIsNotDelayedByMemoryReport: a container is asked for its memory between its run and
// the next run. Neither the caller nor the controller waits for the answer, only the record.
func TestEndIsNotDelayedByMemoryReport(t *testing.T) {
	for logs, answers := range map[int]string{0: "combined", 10: "result completion"} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", func(a *activation.Action) {
				annotate("true")(a)
				a.Limits.LogsMB = logs
			})
			env.lasting(time.Second)
			env.gpu.hold = func(name string, _ gpu.MemoryRequest) {
				pass(time.Second)
				env.gpu.log("held")
				env.gpu.holds(name, 3<<30, 3<<30, 0)
			}
			s := env.gpuSettings(1)
			s.GPU.Tokens.Max = 1
			_, stop := env.start(s)
			first := env.invokeAndWait("f", time.Millisecond)
			env.invokeAndWait("f", time.Minute)
			stop()
			once := "begin run " + answers + " held"
			got := strings.ReplaceAll(strings.Join(env.gpu.calls, " "), " end", "")
			check.Equal(t, got, once+" "+once, "logs of %d MB: %s\nwant twice %s", logs, got, once)
			check.Equal(t, gpuAnnotation(t, env.record(first)).Memory, 3<<30, "the record shows")
		})
	}
}

// slowLogs has every run take a second, and the reading of its logs ten.
func (env *fixture) slowLogs() {
	env.lasting(time.Second)
	env.logging = func() {
		pass(10 * time.Second)
		env.gpu.log("logs")
	}
}

// TestTokenIsFreeWhileLogsAreRead: whose logs are being read needs no device,
// but its container; another function may have the token meanwhile.
func TestTokenIsFreeWhileLogsAreRead(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f", "g")
		env.slowLogs()
		s := env.gpuSettings(1)
		s.GPU.Tokens.Max = 1
		_, stop := env.start(s)
		env.invokeAndWait("f", time.Minute)
		env.invokeAndWait("f", time.Millisecond)
		g := env.invoke("g", nil) // whose memory replaces f's
		pass(3 * time.Second)
		got := env.kinds(g)
		check.Equal(check.Must(t), len(got), 1, "the other function is answered")
		check.Equal(t, got[0], "result", "the other function is answered")
		check.Equal(t, len(env.gpu.orders()), 1)
		pass(time.Minute)
		stop()
		check.Equal(t, len(env.kinds(g)), 2)
		check.Equal(t, len(env.created), 2)
	})
}

// TestContainerIsNotSharedWithLogs: the next run of a function does without a
// new container: it has the one whose logs are being read, when they are.
func TestContainerIsNotSharedWithLogs(t *testing.T) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus", "fcfs"} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate(`{"memory":"1 GB"}`))
			env.slowLogs()
			s := env.gpuSettings(1)
			s.GPU.Policy, s.GPU.Tokens.Max = policy, 1
			_, stop := env.start(s)
			var ids []activation.ID
			for range 3 {
				ids = append(ids, env.invoke("f", nil))
				pass(time.Millisecond)
			}
			pass(time.Minute)
			stop()
			calls := strings.Join(env.gpu.calls, " ")
			for _, word := range []string{"begin ", "end ", "result ", "completion "} {
				calls = strings.ReplaceAll(calls+" ", word, "")
			}
			calls = strings.TrimSpace(calls)
			check.Equal(t, calls, "run logs run logs run logs", "%s", policy)
			check.Equal(t, len(env.created), 1, "%s", policy)
			for i, id := range ids {
				n := gpuAnnotation(t, env.record(id))
				check.That(t, (n.Start == "gpu-warm") == (i > 0), "%s: run %d was %s", policy, i, n.Start)
			}
		})
	}
}

// TestCallerComesBackAtOnce: a caller that has the answer may call again before the
// container's memory is known. It gets the same container.
func TestCallerComesBackAtOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", annotate("true"))
		env.gpu.hold = func(name string, need gpu.MemoryRequest) {
			pass(time.Second)
			env.gpu.holds(name, need.Bytes, need.Bytes, need.Context)
		}
		_, stop := env.start(env.gpuSettings(1)) // of two tokens
		for range 3 {
			id := env.invoke("f", nil)
			env.answered(id, 2)
		}
		pass(time.Minute)
		stop()
		check.Equal(t, len(env.created), 1)
	})
}

// TestContainerDiesWhileItsLogsAreRead: the waiting run gets another container.
func TestContainerDiesWhileItsLogsAreRead(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", annotate(`{"memory":"1 GB"}`))
		env.slowLogs()
		s := env.gpuSettings(1)
		s.GPU.Tokens.Max = 1
		iv, stop := env.start(s)
		env.invokeAndWait("f", time.Millisecond)
		next := env.invoke("f", nil)
		pass(3 * time.Second) // the logs of the first are being read
		st := env.status(iv)
		check.Equal(t, st.Devices[0].InFlight, 1)
		check.Equal(t, st.Containers[0].Active, 2)
		env.setRun(func(n int, _ []byte) proxy.Exchange {
			if n > 1 { // of the container that ended
				return proxy.Exchange{Failure: proxy.Refused}
			}
			return answer(200, `{}`)
		})
		env.diedC <- "id1"
		pass(time.Minute)
		stop()
		rec := env.record(next)
		check.That(check.Must(t), rec != nil, "%+v, in %d containers", rec, len(env.created))
		check.Equal(t, rec.Response.StatusCode, 0)
		check.Equal(t, len(env.created), 2)
	})
}
