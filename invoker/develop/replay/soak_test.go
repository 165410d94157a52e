package replay

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// soakRate is how many activations a soak sends in a second unless
// GPUWHISK_SOAK_RATE sets another number, after a first crowd that has pools of
// connections and tables of what is open reach their size. More than that crowd
// is never open: how far a busy machine falls behind is no matter of the
// invoker's, and with a rate that is too high it gets what it bears.
const (
	soakRate  = 200
	soakCrowd = 2000
)

// TestSoak sends activations at a rate for as long as GPUWHISK_SOAK sets (an
// hour in make long), and demands that what the invoker holds does not grow: its
// memory, goroutines, open files and what lies in its directories. It rests after
// a third of the time and at the end, and all of it is then to 5 % what it was at
// the first rest: what leaks is there when nothing is done, and what is not used
// was given back then. What is held at work, in the last sixth of the time and in
// the second, is told and not judged: it follows how many activations are in
// flight, which follows what else the machine does. Logs of containers grow until
// they are exchanged, and have a bound of their own. REPLAY_PROFILES names a
// directory for profiles of its heap at both rests.
func TestSoak(t *testing.T) {
	text := os.Getenv("GPUWHISK_SOAK")
	if text == "" {
		t.Skip("it takes an hour: make long, or GPUWHISK_SOAK=20m")
	}
	long, err := time.ParseDuration(text)
	if err != nil || long < time.Minute {
		t.Fatalf("GPUWHISK_SOAK=%q: want a duration of a minute or more", text)
	}
	w := newFixture(t)
	w.recording.keepNothing()
	s := newSoak(w)
	warm := long / 6
	s.send(soakCrowd)
	early := lowest(s.work(2*warm), warm)
	first := s.rest()
	late := lowest(s.work(long-2*warm), warm)
	last := s.rest()
	t.Logf("sent %d activations in %s and two rests of %s", s.sent, long, soakRest)
	for i, name := range gaugeNames {
		s.compare("at work "+name, early[i], late[i], slack[i], false)
		s.compare("at rest "+name, first[i], last[i], slack[i], i != logs)
	}
	if last[logs] > maxLogs {
		t.Errorf("the container's log takes %.1f MiB", last[logs])
	}
	s.finish()
}

func (s *soak) compare(name string, early, late, slack float64, judged bool) {
	s.w.t.Helper()
	s.w.t.Logf("%-30s %10.1f then %10.1f: %+.1f %%", name, early, late, 100*(late/max(early, 1)-1))
	if judged && late > early*1.05+slack {
		s.w.t.Errorf("%s grew from %.1f to %.1f", name, early, late)
	}
}

// maxLogs is what the container's log may take in MiB, with the one before it.
const maxLogs = 2*16 + 1

// soakRest is longer than any connection is kept that is not used, which is the
// database's for 90 s.
const soakRest = 2 * time.Minute

// What is watched, and how much more than 5 % it may differ: pages that the
// runtime holds in reserve for heap and stacks, threads that it never ends, a
// connection or two, a segment of the journal. Of what lives in the heap, which is
// where a leak shows first, nothing.
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

// levels are what was seen at a moment, or for a while: the lowest tenth, since
// what leaks is there also when least is in flight; on disk the mean, since files
// grow until they are exchanged, and of logs the most.
type levels [gauges]float64

type soak struct {
	w     *fixture
	p     *process
	c     *kgo.Client
	rev   string
	rate  int // in a second
	sent  int64
	began time.Time
}

func newSoak(w *fixture) *soak {
	w.t.Helper()
	// One container: how many there are follows the bursts of a busy machine,
	// and stays for minutes.
	w.extra = append(w.extra, "CONFIG_whisk_containerPool_userMemory=256m")
	rev, err := w.db.Put(w.t.Context(), names.Whisks, "guest/caller", []byte(caller))
	if err != nil {
		w.t.Fatal(err)
	}
	s := &soak{w: w, rev: rev, rate: number(w.t, "GPUWHISK_SOAK_RATE", soakRate), p: w.spawnAs(0, profileVariable+"="+os.Getenv(profileVariable)), began: time.Now()}
	if s.c, err = kgo.NewClient(kgo.SeedBrokers(w.kafka), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.c.Close)
	return s
}

// send sends n more activations.
func (s *soak) send(n int64) {
	for range max(n, 0) {
		s.sent++
		s.one(s.sent)
	}
}

// sample is what was seen at a moment.
type sample struct {
	at time.Time
	levels
}

// work sends what is due every 20 ms, for a while, and looks each second
// meanwhile. It has the broker forget what was read: it keeps all in memory, and
// that is this process's.
func (s *soak) work(long time.Duration) []sample {
	ctx, cancel := context.WithTimeout(s.w.t.Context(), long)
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
			s.send(min(due, soakCrowd-(s.sent-s.w.recording.completions())))
		}
	}
}

// watch looks each second until ctx ends, and does something for the next look.
func (s *soak) watch(ctx context.Context, then func()) <-chan []sample {
	seen := make(chan []sample, 1)
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var all []sample
		for {
			select {
			case <-ctx.Done():
				seen <- all
				return
			case <-tick.C:
				all = append(all, sample{time.Now(), s.measure()})
				then()
			}
		}
	}()
	return seen
}

// rest waits until all is answered and no connection is kept longer, and
// reports what is held then.
func (s *soak) rest() levels {
	s.w.t.Helper()
	s.settle()
	s.trim()
	s.pause(soakRest)
	_ = s.p.cmd.Process.Signal(syscall.SIGUSR2) // see sweepAtSignal
	s.report()
	ctx, cancel := context.WithTimeout(s.w.t.Context(), 30*time.Second)
	defer cancel()
	sweep := func() { _ = s.p.cmd.Process.Signal(syscall.SIGUSR1) } // each look leaves garbage
	return lowest(<-s.watch(ctx, sweep), 20*time.Second)
}

func (s *soak) pause(long time.Duration) {
	select {
	case <-time.After(long):
	case <-s.w.t.Context().Done():
	}
}

// lowest gives the levels of the last of what was seen.
func lowest(all []sample, last time.Duration) (l levels) {
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
	text := fmt.Sprintf(`{"transid":["t%d",%d],"action":{"path":"guest","name":"caller","version":"0.0.1"},"revision":%q,`+
		`"activationId":"%032x","rootControllerIndex":{"asString":"0","instanceType":"controller"},"blocking":%t,"initArgs":[],`+
		`"lockedArgs":{},"content":{"n":%d},"user":{"subject":"guest","namespace":{"name":"guest","uuid":"u"},`+
		`"authkey":{"api_key":"u:k"},"rights":[],"limits":{}}}`, n, time.Now().UnixMilli(), s.rev, n, n%2 == 0, n)
	s.c.Produce(context.Background(), &kgo.Record{Topic: "invoker0", Value: []byte(text)}, func(_ *kgo.Record, err error) {
		if err != nil {
			s.w.t.Errorf("send activation %d: %v", n, err)
		}
	})
}

func (s *soak) trim() {
	req := kmsg.NewPtrDeleteRecordsRequest()
	for topic, until := range map[string]int64{
		"invoker0": s.w.recording.committed(), "completed0": s.w.recording.at("completed0"), "events": s.w.recording.at("events"),
	} {
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Offset = max(0, until)
		of := kmsg.NewDeleteRecordsRequestTopic()
		of.Topic, of.Partitions = topic, append(of.Partitions, part)
		req.Topics = append(req.Topics, of)
	}
	if _, err := req.RequestWith(context.Background(), s.c); err != nil {
		s.w.t.Logf("the broker keeps what was read: %v", err)
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
		_ = filepath.WalkDir(filepath.Join(s.w.dir, dir), func(path string, d fs.DirEntry, err error) error {
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

func (s *soak) proc() string { return filepath.Join("/proc", strconv.Itoa(s.p.cmd.Process.Pid)) }

// pages are the MiB of the invoker in memory, and those of them that are the
// program's and of other files: the system can take them back, and they become
// more with each part of the program that runs for the first time.
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

// report says what lies where, and what the open files are.
func (s *soak) report() {
	resident, ofFiles := s.pages()
	threads, _ := os.ReadDir(filepath.Join(s.proc(), "task"))
	s.w.t.Logf("resident %.1f MiB, %.1f of them of files; %d threads; open files: %s", resident, ofFiles, len(threads), openFiles(s.proc()))
	for _, dir := range []string{"state", "processes"} {
		s.w.t.Logf("%s after %s:\n%s", dir, time.Since(s.began).Round(time.Second), inside(filepath.Join(s.w.dir, dir)))
	}
}

// metric reads one number of /metrics.
func (s *soak) metric(name string) float64 {
	_, port, _ := net.SplitHostPort(s.p.admin)
	res, err := http.Get("http://127.0.0.1:" + port + "/metrics")
	if err != nil {
		s.w.t.Errorf("/metrics: %v", err)
		return 0
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, _ := strconv.ParseFloat(value, 64)
			return n
		}
	}
	s.w.t.Errorf("/metrics has no %s", name)
	return 0
}

// settle waits until all that was sent is answered.
func (s *soak) settle() {
	t := s.w.t
	t.Helper()
	if err := s.c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := s.w.recording.end("invoker0")
	if end < s.sent {
		t.Errorf("the topic ends at %d for %d activations", end, s.sent)
	}
	late := time.NewTimer(waitLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for at := int64(-1); ; {
		position := s.w.recording.committed()
		if position >= end {
			return
		}
		if position > at {
			at = position
			late.Reset(waitLimit)
		}
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("the position is %d of %d", position, end)
		}
	}
}

// finish ends the invoker, and looks whether all is there.
func (s *soak) finish() {
	t := s.w.t
	t.Helper()
	s.settle()
	s.p.terminate()
	if acks := s.w.recording.completions(); acks < s.sent {
		t.Errorf("%d completions for %d activations", acks, s.sent)
	}
	for _, n := range []int64{1, s.sent / 2, s.sent} {
		if s.w.record(fmt.Sprintf("%032x", n)) == nil {
			t.Errorf("activation %d has no record", n)
		}
	}
	s.w.noStrays()
}
