package invoker

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// said is the log of an invoker, as text.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// lines are those with a class, without the time: class, transaction, text.
func (s *said) lines() (lines []string) {
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

// marked runs something in a world whose invoker writes marks, and gives them.
func marked(t *testing.T, on bool, change func(w *world), do func(w *world)) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("hello", nil)
		change(w)
		s := w.settings()
		s.Marks = on
		log := &said{}
		w.log = slog.New(slog.NewTextHandler(log, nil))
		_, stop := w.start(s)
		do(w)
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
func TestMarks(t *testing.T) {
	took := func(x proxy.Exchange, d time.Duration) proxy.Exchange {
		time.Sleep(d) // of the test's clock
		return x
	}
	got := marked(t, true, func(w *world) {
		w.init = func([]byte) proxy.Exchange { return took(answer(200, `{}`), 30*time.Millisecond) }
		w.setRun(func(int, []byte) proxy.Exchange { return took(answer(200, `{}`), 400*time.Millisecond) })
	}, func(w *world) {
		w.invoke("hello", began)
		time.Sleep(time.Second)
		synctest.Wait()
		w.invoke("hello", began)
		time.Sleep(time.Minute) // the container is paused
		synctest.Wait()
		w.invoke("hello", func(m *activation.Message) {
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
		if strings.Contains(line, "[marker") && (m == nil || strings.Count(m[1], "_") != 2) {
			t.Errorf("the original cannot read the marker of %q", line)
		}
		if m != nil && (m[3] != "") != (strings.HasSuffix(m[1], "_finish") || strings.HasSuffix(m[1], "_error")) {
			t.Errorf("numbers of %q", line)
		}
	}
}

// What fails has the original's words and tokens, too.
func TestMarksOfFailures(t *testing.T) {
	got := marked(t, true, func(w *world) {
		w.logs = container.LogResult{Incomplete: true}
		w.setRun(func(int, []byte) proxy.Exchange { return answer(502, `{"error":"x"}`) })
	}, func(w *world) {
		w.invoke("hello", began)
	})
	for _, line := range []string{
		`INFO DockerContainer theirs running result: not ok [marker:invoker_activationRun_finish:5:0]`,
		`WARN ContainerProxy theirs reading logs failed: lines are missing [marker:invoker_collectLogs_error:5:0]`,
	} {
		if !slices.Contains(got, line) {
			t.Errorf("no line\n  %s\namong\n  %s", line, strings.Join(got, "\n  "))
		}
	}
}

// Who waits for room is told of, once in ten seconds.
func TestMarksOfWaiting(t *testing.T) {
	got := marked(t, true, func(w *world) {
		w.action("large", func(a *activation.Action) { a.Limits.MemoryMB = 512 })
		w.setRun(func(int, []byte) proxy.Exchange { time.Sleep(25 * time.Second); return answer(200, `{}`) })
	}, func(w *world) {
		for range 9 {
			w.invoke("large", nil)
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
	if n == 0 || n > 6 || !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
		t.Errorf("%d lines like\n  %s\namong\n  %s", n, want, strings.Join(got, "\n  "))
	}
}

// Off, nothing is written, and nothing is allocated for it.
func TestMarksOff(t *testing.T) {
	if got := marked(t, false, func(*world) {}, func(w *world) { w.invoke("hello", began) }); len(got) != 0 {
		t.Errorf("said %q", got)
	}
	var off *marks
	r := &run{job: &job{ticket: &ticket{}}}
	if n := testing.AllocsPerRun(100, func() {
		off.accepted(r.ticket)
		off.placed(r)
		off.runBegins(r)
		off.runEnds(r, proxy.Exchange{})
		off.docker(activation.TransID{}, "run", "name")(nil)
		off.left(r)
	}); n != 0 {
		t.Errorf("%v allocations while it is off", n)
	}
}
