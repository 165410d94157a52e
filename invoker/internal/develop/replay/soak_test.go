package replay

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// soakRate is the number of activations per second of a soak, unless GPUWHISK_SOAK_RATE
// is set. They follow a first batch in which connection pools and tables of open
// activations reach their size. No more than that batch is ever in flight, so a busy
// machine cannot fall behind further, and a rate that is too high is reduced to the
// possible rate.
const (
	soakRate  = 200
	soakFirst = 2000
)

// TestSoak sends activations at a rate for the time in GPUWHISK_SOAK (an hour in make
// long), and checks that the invoker's memory, goroutines, open files and directories do
// not grow. It rests after a third of the time and at the end. All values at the second
// rest must be within 5 % of the first, because a leak is visible at rest, and unused
// memory was returned before the first rest. The values under load, in the second and
// the last sixth of the time, are logged but not checked: they follow the number of
// activations in flight, which depends on the load of the machine. Logs of containers
// grow until they are rotated, and have a separate limit. GPUWHISK_SOAK_PROFILES names a
// directory for heap profiles at both rests.
func TestSoak(t *testing.T) {
	text := os.Getenv("GPUWHISK_SOAK")
	if text == "" {
		t.Skip("it takes an hour: make long, or GPUWHISK_SOAK=20m")
	}
	long, err := time.ParseDuration(text)
	check.NoError(t, err, "GPUWHISK_SOAK=%q", text)
	check.AtLeast(check.Must(t), long, time.Minute, "GPUWHISK_SOAK=%q", text)
	w := newFixture(t)
	w.Recording.CountOnly()
	s := newSoak(w)
	warm := long / 6
	s.send(soakFirst)
	early := lowest(s.work(2*warm), warm)
	first := s.rest()
	late := lowest(s.work(long-2*warm), warm)
	last := s.rest()
	t.Logf("sent %d activations in %s and two rests of %s", s.sent, long, soakRest)
	for i, name := range gaugeNames {
		s.compare("at work "+name, early[i], late[i], slack[i], false)
		s.compare("at rest "+name, first[i], last[i], slack[i], i != logs)
	}
	check.AtMost(t, last[logs], maxLogs, "MiB of the container's log")
	s.finish()
}

func (s *soak) compare(name string, early, late, slack float64, judged bool) {
	s.w.T.Helper()
	s.w.T.Logf("%-30s %10.1f then %10.1f: %+.1f %%", name, early, late, 100*(late/max(early, 1)-1))
	if judged {
		check.AtMost(s.w.T, late, early*1.05+slack, "%s grew from %.1f to %.1f", name, early, late)
	}
}

// maxLogs is the limit of the container's log in MiB, together with the previous file.
const maxLogs = 2*16 + 1

// soakRest is longer than any connection is kept that is not used, which is the
// database's for 90 s.
const soakRest = 2 * time.Minute

// The watched values, and the allowed difference beyond 5 %: reserve pages of the
// runtime for heap and stacks, threads that the runtime never ends, a connection or two,
// a segment of the journal. For the live heap, where a leak shows first, no further
// difference is allowed.
const (
	memory = iota
	heap
	goroutines
	files
	onDisk
	logs
	gauges
)

var (
	gaugeNames = [gauges]string{"own memory (MiB)", "live heap (MiB)", "goroutines", "open files", "in directories (MiB)", "logs of containers (MiB)"}
	slack      = [gauges]float64{1, 0, 2, 2, 8}
)

// levels are measured values, at a moment or over a while: the lowest tenth, because a
// leak is also visible when least is in flight; on disk the mean, because files grow
// until they are replaced; and for logs the maximum.
type levels [gauges]float64

type soak struct {
	w     *fixture
	p     *harness.Process
	rate  int // in a second
	sent  int64
	began time.Time
}

func newSoak(w *fixture) *soak {
	w.T.Helper()
	// One container: how many there are follows the bursts of a busy machine,
	// and stays for minutes.
	w.Settings = append(w.Settings, "CONFIG_whisk_containerPool_userMemory=256m")
	w.Put(caller)
	s := &soak{w: w, rate: harness.Number(w.T, "GPUWHISK_SOAK_RATE", soakRate), p: w.Spawn(0, profileVariable+"="+os.Getenv(profileVariable)), began: time.Now()}
	return s
}

// send sends n more activations.
func (s *soak) send(n int64) {
	for range max(n, 0) {
		s.sent++
		s.one(s.sent)
	}
}

// sample holds the values of a moment.
type sample struct {
	at time.Time
	levels
}

// work sends the due activations every 20 ms, for a while, and measures each second. It
// deletes read messages from the broker, which would otherwise keep all of them in this
// process's memory.
func (s *soak) work(long time.Duration) []sample {
	ctx, cancel := context.WithTimeout(s.w.T.Context(), long)
	defer cancel()
	seen := s.watch(ctx, func() {})
	began, before := time.Now(), s.sent
	tick, trim := time.NewTicker(20*time.Millisecond), time.NewTicker(20*time.Second)
	defer tick.Stop()
	defer trim.Stop()
	for {
		select {
		case <-ctx.Done():
			return <-seen
		case <-trim.C:
			s.trim()
		case <-tick.C:
			due := before + int64(time.Since(began).Seconds()*float64(s.rate)) - s.sent
			s.send(min(due, soakFirst-(s.sent-s.w.Recording.Completions())))
		}
	}
}

// watch measures each second until ctx ends, and calls then after each time.
func (s *soak) watch(ctx context.Context, then func()) <-chan []sample {
	seen := make(chan []sample, 1)
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var all []sample
		defer func() { seen <- all }() // also where a page does not come, which ends this goroutine
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				all = append(all, sample{time.Now(), s.measure()})
				then()
			}
		}
	}()
	return seen
}

// rest waits until everything is answered and no idle connection is kept, and returns
// the levels.
func (s *soak) rest() levels {
	s.w.T.Helper()
	s.settle()
	s.trim()
	s.pause(soakRest)
	_ = s.p.Cmd.Process.Signal(syscall.SIGUSR2) // see sweepAtSignal
	s.report()
	ctx, cancel := context.WithTimeout(s.w.T.Context(), 30*time.Second)
	defer cancel()
	sweep := func() { _ = s.p.Cmd.Process.Signal(syscall.SIGUSR1) } // each measurement leaves garbage
	return lowest(<-s.watch(ctx, sweep), 20*time.Second)
}

func (s *soak) pause(long time.Duration) {
	select {
	case <-time.After(long):
	case <-s.w.T.Context().Done():
	}
}

// lowest returns the levels of the last part of the samples.
func lowest(all []sample, last time.Duration) (l levels) {
	if len(all) == 0 {
		return l // the test has failed
	}
	from := all[len(all)-1].at.Add(-last)
	all = all[slices.IndexFunc(all, func(one sample) bool { return !one.at.Before(from) }):]
	for i := range l {
		var values []float64
		sum := 0.0
		for _, one := range all {
			values = append(values, one.levels[i])
			sum += one.levels[i]
		}
		slices.Sort(values)
		switch l[i] = values[len(values)/10]; i {
		case onDisk:
			l[i] = sum / float64(len(values))
		case logs:
			l[i] = values[len(values)-1]
		}
	}
	return l
}

func (s *soak) one(n int64) {
	m := harness.Message{ID: fmt.Sprintf("%032x", n), Action: "caller", Revision: s.w.Revisions["caller"], NoAnswer: n%2 == 1, Content: map[string]any{"n": n}}
	s.w.Recording.Send("invoker0", m.Text(s.w.T))
}

// trim deletes the read messages from the broker.
func (s *soak) trim() {
	r := s.w.Recording
	for topic, until := range map[string]int64{"invoker0": r.Committed("invoker0"), "completed0": r.At("completed0"), "events": r.At("events")} {
		if err := r.Delete(topic, until); err != nil {
			s.w.T.Logf("the broker keeps read messages: %v", err)
		}
	}
}

func (s *soak) measure() (l levels) {
	resident, ofFiles := s.pages()
	l[memory] = resident - ofFiles
	l[heap] = s.metric("go_memstats_heap_alloc_bytes") / (1 << 20)
	open, _ := os.ReadDir(filepath.Join(s.proc(), "fd"))
	l[files] = float64(len(open))
	l[goroutines] = s.metric("go_goroutines")
	for _, dir := range []string{"state", "processes"} {
		_ = filepath.WalkDir(filepath.Join(s.w.Dir, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil // gone meanwhile
			}
			if info, err := d.Info(); err == nil {
				kind := onDisk
				if strings.Contains(path, "/containers/") && dir == "processes" {
					kind = logs
				}
				l[kind] += float64(info.Size()) / (1 << 20)
			}
			return nil
		})
	}
	return l
}

func (s *soak) proc() string { return filepath.Join("/proc", strconv.Itoa(s.p.Cmd.Process.Pid)) }

// pages returns the resident memory of the invoker in MiB, and the part that maps the
// program and other files. The system can reclaim that part, and it grows whenever a
// part of the program runs for the first time.
func (s *soak) pages() (resident, ofFiles float64) {
	text, _ := os.ReadFile(filepath.Join(s.proc(), "statm"))
	fields := strings.Fields(string(text))
	if len(fields) < 3 {
		return 0, 0
	}
	mib := func(field string) float64 {
		pages, _ := strconv.ParseFloat(field, 64)
		return pages * float64(os.Getpagesize()) / (1 << 20)
	}
	return mib(fields[1]), mib(fields[2])
}

// report logs the sizes of directories and the kinds of open files.
func (s *soak) report() {
	resident, ofFiles := s.pages()
	threads, _ := os.ReadDir(filepath.Join(s.proc(), "task"))
	s.w.T.Logf("after %s: resident %.1f MiB, %.1f of them of files; %d threads; open files:\n%s\nsockets:\n%s\ndirectories (KiB):\n%s",
		time.Since(s.began).Round(time.Second), resident, ofFiles, len(threads), output("ls", "-l", filepath.Join(s.proc(), "fd")),
		output("sh", "-c", fmt.Sprintf("ss -tnpH | grep -w pid=%d", s.p.Cmd.Process.Pid)), output("du", "-k", filepath.Join(s.w.Dir, "state"), filepath.Join(s.w.Dir, "processes")))
}

// metric reads one number of /metrics, which is never 0.
func (s *soak) metric(name string) float64 {
	n := s.p.Admin.Metric(s.w.T, name, "")
	if n == 0 {
		s.w.T.Errorf("/metrics has no %s", name)
	}
	return n
}

// settle waits until all that was sent is answered.
func (s *soak) settle() {
	t := s.w.T
	t.Helper()
	s.w.Recording.Flush()
	end := s.w.Recording.End("invoker0")
	check.AtLeast(t, end, s.sent, "end of the topic")
	late := time.NewTimer(peertest.WaitLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for at := int64(-1); ; {
		position := s.w.Recording.Committed("invoker0")
		if position >= end {
			return
		}
		if position > at {
			at = position
			late.Reset(peertest.WaitLimit)
		}
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("the position is %d of %d", position, end)
		}
	}
}

// finish ends the invoker, and checks that all is there.
func (s *soak) finish() {
	t := s.w.T
	t.Helper()
	s.settle()
	s.p.Terminate(t)
	check.AtLeast(t, s.w.Recording.Completions(), s.sent, "completions for activations")
	for _, n := range []int64{1, s.sent / 2, s.sent} {
		check.That(t, s.w.StoredRecord(fmt.Sprintf("%032x", n)) != nil, "activation %d", n)
	}
	s.w.noStrays()
}
