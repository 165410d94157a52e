package invoker

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/spans"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// logged is the log of an invoker, as text.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *logged) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// lines are those with a class, without the time: class, transaction, text.
func (s *logged) lines() (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	head := regexp.MustCompile(`level=(\w+) msg=("(?:[^"\\]|\\.)*"|\S+) transid=(\S+) child=(\S+) class=(\S+)`)
	for line := range strings.Lines(s.buf.String()) {
		if m := head.FindStringSubmatch(line); m != nil {
			lines = append(lines, strings.Join([]string{m[1], m[5], m[3], strings.Trim(m[2], `"`)}, " "))
		}
	}
	return lines
}

// markerLines runs something in a fixture whose invoker writes log markers, and gives
// them.
func markerLines(t *testing.T, on bool, change func(env *fixture), do func(env *fixture)) (lines []string) {
	t.Helper()
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("hello", nil)
		change(env)
		s := env.settings()
		s.LogMarkers = on
		log := &logged{}
		env.log = slog.New(slog.NewTextHandler(log, nil))
		_, stop := env.start(s)
		do(env)
		synctest.Wait()
		stop()
		lines = log.lines()
	})
	return lines
}

// began is a transaction of a moment ago.
func began(m *activation.Message) {
	m.TransID = activation.NewTransID("theirs", time.Now().Add(-5*time.Millisecond).UnixMilli(), false)
}

// With METRICS_LOG each step has the original's line, from its class, in its
// transaction: the texts and tokens that pipelines match.
func TestLogMarkers(t *testing.T) {
	took := func(x proxy.Exchange, d time.Duration) proxy.Exchange {
		time.Sleep(d) // of the test's clock
		return x
	}
	got := markerLines(t, true, func(env *fixture) {
		env.init = func([]byte) proxy.Exchange { return took(answer(200, `{}`), 30*time.Millisecond) }
		env.setRun(func(int, []byte) proxy.Exchange { return took(answer(200, `{}`), 400*time.Millisecond) })
	}, func(env *fixture) {
		env.invoke("hello", began)
		time.Sleep(time.Second)
		synctest.Wait()
		env.invoke("hello", began)
		time.Sleep(time.Minute) // the container is paused
		synctest.Wait()
		env.invoke("hello", func(m *activation.Message) {
			began(m)
			m.TransID = m.TransID.Child("mine", time.Now().UnixMilli())
		})
		time.Sleep(time.Second)
	})
	id := func(n string) string { return strings.Repeat("0", 31) + n }
	want := []string{
		`INFO InvokerReactive theirs  [marker:invoker_activation_start:5]`,
		`INFO WhiskAction theirs [GET] serving from datastore: CacheKey(guest/hello) [marker:database_cacheMiss_counter:5]`,
		`INFO ContainerPool theirs containerStart containerState: cold container: None activations: 1 of max 1 action: hello namespace: guest activationId: ` + id("0") + ` [marker:invoker_containerStart.cold_counter:5]`,
		`INFO DockerClientWithFileAccess theirs running docker run wsk00_1_guest_hello [marker:invoker_docker.run_start:5]`,
		`INFO DockerClientWithFileAccess theirs  [marker:invoker_docker.run_finish:5:0]`,
		`INFO DockerContainer theirs sending initialization to ContainerId(id1) ContainerAddress(addr1,8080) [marker:invoker_activationInit_start:5]`,
		`INFO DockerContainer theirs initialization result: ok [marker:invoker_activationInit_finish:35:30]`,
		`INFO DockerContainer theirs sending arguments to /guest/hello at ContainerId(id1) ContainerAddress(addr1,8080) [marker:invoker_activationRun_start:35]`,
		`INFO DockerContainer theirs running result: ok [marker:invoker_activationRun_finish:435:400]`,
		`INFO ContainerProxy theirs  [marker:invoker_collectLogs_start:435]`,
		`INFO ContainerProxy theirs  [marker:invoker_collectLogs_finish:435:0]`,
		`INFO MessagingActiveAck theirs posted result of activation ` + id("0"),
		`INFO MessagingActiveAck theirs posted completion of activation ` + id("0"),
		`INFO ContainerPool theirs containerStart containerState: warmed container: Some(ContainerId(id1)) activations: 1 of max 1 action: hello namespace: guest activationId: ` + id("1") + ` [marker:invoker_containerStart.warmed_counter:5]`,
		`INFO DockerClientWithFileAccess sid_invokerNanny running docker pause id1 [marker:invoker_docker.pause_start:`,
		`INFO DockerClientWithFileAccess theirs running docker unpause id1 [marker:invoker_docker.unpause_start:`,
		`INFO DockerClientWithFileAccess theirs  [marker:invoker_docker.unpause_finish:`,
	}
	for _, line := range want {
		if !slices.ContainsFunc(got, func(have string) bool {
			return have == line || !strings.HasSuffix(line, "]") && strings.HasPrefix(have, line)
		}) {
			t.Errorf("no line\n  %s\namong\n  %s", line, strings.Join(got, "\n  "))
		}
	}
	form := regexp.MustCompile(`\[marker:([^\s:]+):(\d+)(?::(\d+))?\]$`)
	for _, line := range got {
		m := form.FindStringSubmatch(line)
		if !strings.Contains(line, "[marker") {
			continue
		}
		check.That(check.Must(t), m != nil, "the original cannot read the marker of %q", line)
		check.Equal(t, strings.Count(m[1], "_"), 2, "the original cannot read the marker of %q", line)
		ends := strings.HasSuffix(m[1], "_finish") || strings.HasSuffix(m[1], "_error")
		check.Equal(t, m[3] != "", ends, "numbers of %q", line)
	}
}

// What fails has the original's texts and tokens, too.
func TestLogMarkersOfFailures(t *testing.T) {
	got := markerLines(t, true, func(env *fixture) {
		env.logs = container.LogResult{Incomplete: true}
		env.setRun(func(int, []byte) proxy.Exchange { return answer(502, `{"error":"x"}`) })
	}, func(env *fixture) {
		env.invoke("hello", began)
	})
	for _, line := range []string{
		`INFO DockerContainer theirs running result: not ok [marker:invoker_activationRun_finish:5:0]`,
		`WARN ContainerProxy theirs reading logs failed: lines are missing [marker:invoker_collectLogs_error:5:0]`,
	} {
		check.Includes(t, got, line, "no line")
	}
}

// An activation that waits for memory is logged, once in ten seconds.
func TestLogMarkersOfWaiting(t *testing.T) {
	got := markerLines(t, true, func(env *fixture) {
		env.action("large", func(a *activation.Action) { a.Limits.MemoryMB = 512 })
		env.setRun(func(int, []byte) proxy.Exchange { time.Sleep(25 * time.Second); return answer(200, `{}`) })
	}, func(env *fixture) {
		for range 9 {
			env.invoke("large", nil)
		}
		time.Sleep(2 * time.Minute)
	})
	n := 0
	for _, line := range got {
		if strings.Contains(line, "Rescheduling Run message") {
			n++
		}
	}
	want := `WARN ContainerPool tid Rescheduling Run message, too many message in the pool, freePoolSize: 0 containers and 0 MB, ` +
		`busyPoolSize: 4 containers and 2048 MB, maxContainersMemory 2048 MB, userNamespace: guest, action: guest/large, needed memory: 512 MB, waiting messages: `
	check.That(t, n != 0, "%d lines like\n  %s\namong\n  %s", n, want, strings.Join(got, "\n  "))
	check.AtMost(t, n, 6, "%d lines like\n  %s\namong\n  %s", n, want, strings.Join(got, "\n  "))
	check.That(t, slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }), "%d lines like\n  %s\namong\n  %s", n, want, strings.Join(got, "\n  "))
}

// Off, nothing is written.
func TestLogMarkersOff(t *testing.T) {
	got := markerLines(t, false, func(*fixture) {}, func(env *fixture) { env.invoke("hello", began) })
	check.Equal(t, len(got), 0)
}

// What adapters report becomes the original's lines, and metrics.
func TestSpansAreObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, reg := &logged{}, prometheus.NewRegistry()
		s := NewSpanObserver(true, reg, slog.New(slog.NewTextHandler(log, nil)))
		theirs := activation.NewTransID("theirs", time.Now().Add(-5*time.Millisecond).UnixMilli(), false)
		ctx := spans.With(t.Context(), theirs)
		step, done := s.SaveSpan("activations", "guest/1")
		ended := spans.Begin(ctx, s, step)
		time.Sleep(7 * time.Millisecond) // of the test's clock
		ended(done, nil)
		spans.Begin(t.Context(), s, spans.Span{Token: "invoker_docker.pull", Class: "DockerClientWithFileAccess", Text: "running docker pull a/b", System: "sid_invokerWarmup"})("", errors.New("no such image"))
		s.ObserveRequest("GET", "/isEnabled", 401, "somebody", 3*time.Millisecond)
		s.ObserveRequest("GET", "/ping", 200, "probe", time.Millisecond)
		got := log.lines()
		want := []string{
			`INFO CouchDbRestStore theirs [PUT] 'activations' saving document: 'id: guest/1, rev: null' [marker:database_saveDocument_start:5]`,
			`INFO CouchDbRestStore theirs [PUT] 'activations' completed document: 'id: guest/1, rev: null' [marker:database_saveDocument_finish:12:7]`,
			`INFO DockerClientWithFileAccess sid_invokerWarmup running docker pull a/b [marker:invoker_docker.pull_start:0]`,
			`ERROR DockerClientWithFileAccess sid_invokerWarmup no such image [marker:invoker_docker.pull_error:0:0]`,
			`INFO BasicHttpService somebody  [marker:http_get.401_counter:3:3]`,
		}
		check.EqualSlices(t, got, want, "got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		families, err := reg.Gather()
		check.NoError(t, err)
		series := map[string]int{}
		for _, f := range families {
			series[f.GetName()] = len(f.GetMetric())
		}
		for name, n := range map[string]int{"gpuwhisk_steps_begun_total": 2, "gpuwhisk_step_seconds": 1, "gpuwhisk_step_failed_seconds": 1, "gpuwhisk_http_seconds": 2} {
			check.Equal(t, series[name], n, "%s", name)
		}
	})
}

// Off, only metrics are made.
func TestStepsOff(t *testing.T) {
	log, reg := &logged{}, prometheus.NewRegistry()
	s := NewSpanObserver(false, reg, slog.New(slog.NewTextHandler(log, nil)))
	step, done := s.SaveSpan("activations", "guest/1")
	spans.Begin(t.Context(), s, step)(done, nil)
	spans.Begin(t.Context(), s, spans.Span{Token: "database_saveDocumentBulk", Documents: 3})("", nil)
	s.ObserveRequest("POST", "/disable", 200, "x", time.Millisecond)
	families, _ := reg.Gather()
	for _, f := range families {
		if f.GetName() == "gpuwhisk_batch_documents" && f.GetMetric()[0].GetHistogram().GetSampleSum() != 3 {
			t.Errorf("a batch of 3 is %v", f)
		}
	}
	check.AtMost(t, log.buf.Len(), 0, "logged %s", log.buf.String())
	spans.Begin(t.Context(), nil, step)(done, nil)
	spans.Begin(t.Context(), (*SpanObserver)(nil), step)(done, nil)
}
