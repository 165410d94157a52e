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
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// soakRate is how many activations a soak sends in a second, after a first crowd
// that has pools of connections reach their size.
const (
	soakRate  = 200
	soakCrowd = 2000
)

// TestSoak sends activations at a rate for as long as GPUWHISK_SOAK says (an
// hour in make long) and demands that what the invoker holds does not grow: its
// memory, goroutines, open files and what lies in its directories are after all
// that time, to 5 %, what they were after a sixth of it.
func TestSoak(t *testing.T) {
	text := os.Getenv("GPUWHISK_SOAK")
	if text == "" {
		t.Skip("it takes an hour: make long, or GPUWHISK_SOAK=20m")
	}
	long, err := time.ParseDuration(text)
	if err != nil || long < time.Minute {
		t.Fatalf("GPUWHISK_SOAK=%q: want a duration of a minute or more", text)
	}
	w := newWorld(t)
	w.tape.keepNothing()
	s := newSoak(w)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	sending := make(chan struct{})
	go func() { defer close(sending); s.send(ctx) }()
	warm := long / 6
	early, late := s.watch(warm, 2*warm), s.watch(long-warm, long)
	all := s.sample(ctx)
	e, l := <-early, <-late
	cancel()
	<-all
	<-sending
	t.Logf("sent %d activations in %s: %.0f a second", s.sent.Load(), long, float64(s.sent.Load())/long.Seconds())
	for i, name := range gaugeNames {
		t.Logf("%-22s %14.1f after a sixth of the time, %14.1f at the end: %+.1f %%", name, e[i], l[i], 100*(l[i]/max(e[i], 1)-1))
		if l[i] > e[i]*1.05+slack[i] {
			t.Errorf("%s grew from %.1f to %.1f", name, e[i], l[i])
		}
	}
	s.finish()
}

// What is watched, and how much more than 5 % it may differ: a connection or two,
// a page or a segment of the journal.
const (
	memory = iota
	goroutines
	files
	onDisk
	gauges
)

var (
	gaugeNames = [gauges]string{"memory (MiB)", "goroutines", "open files", "in directories (MiB)"}
	slack      = [gauges]float64{1, 3, 3, 8}
)

// levels are what was seen at a moment, or on average for a while.
type levels [gauges]float64

type soak struct {
	w     *world
	p     *process
	c     *kgo.Client
	rev   string
	sent  atomic.Int64
	began time.Time
	seen  chan struct{}
	log   []levels // one each second, guarded by the sampler until it has ended
	asked []window
}

// window is a while over which levels are averaged.
type window struct {
	from, to time.Duration
	answer   chan levels
}

func newSoak(w *world) *soak {
	w.t.Helper()
	// One container: how many there are follows the bursts of a busy machine,
	// and stays for minutes.
	w.extra = append(w.extra, "CONFIG_whisk_containerPool_userMemory=256m")
	rev, err := w.db.Put(w.t.Context(), names.Whisks, "guest/caller", []byte(caller))
	if err != nil {
		w.t.Fatal(err)
	}
	s := &soak{w: w, rev: rev, p: w.spawn(), began: time.Now()}
	if s.c, err = kgo.NewClient(kgo.SeedBrokers(w.kafka), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.c.Close)
	return s
}

// send sends what is due every 20 ms, and has the broker forget what was read:
// it keeps all in memory, and that is this process's.
func (s *soak) send(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	trim := time.NewTicker(20 * time.Second)
	defer trim.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-trim.C:
			s.trim()
		case <-tick.C:
			for due := soakCrowd + int64(time.Since(s.began).Seconds()*soakRate); s.sent.Load() < due; {
				s.one(s.sent.Add(1))
			}
		}
	}
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
		"invoker0": s.w.tape.committed(), "completed0": s.w.tape.at("completed0"), "events": s.w.tape.at("events"),
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

// watch has levels averaged over a while.
func (s *soak) watch(from, to time.Duration) <-chan levels {
	one := window{from, to, make(chan levels, 1)}
	s.asked = append(s.asked, one)
	return one.answer
}

// sample looks each second until the time is over, and answers each window when
// it has passed.
func (s *soak) sample(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for over := false; !over; {
			select {
			case <-ctx.Done():
				over = true
			case <-tick.C:
				s.log = append(s.log, s.look())
			}
			for i := range s.asked {
				one := &s.asked[i]
				if one.answer != nil && (over || time.Since(s.began) >= one.to) {
					one.answer <- s.average(one.from, one.to)
					one.answer = nil
				}
			}
		}
	}()
	return done
}

func (s *soak) average(from, to time.Duration) (mean levels) {
	// A second that the machine did not give us is no sample.
	share := float64(len(s.log)) / time.Since(s.began).Seconds()
	first, last := int(from.Seconds()*share), min(int(to.Seconds()*share), len(s.log))
	for _, one := range s.log[first:last] {
		for i := range mean {
			mean[i] += one[i] / float64(last-first)
		}
	}
	return mean
}

func (s *soak) look() (l levels) {
	proc := filepath.Join("/proc", strconv.Itoa(s.p.cmd.Process.Pid))
	if text, err := os.ReadFile(filepath.Join(proc, "statm")); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseFloat(fields[1], 64)
			l[memory] = pages * float64(os.Getpagesize()) / (1 << 20)
		}
	}
	open, _ := os.ReadDir(filepath.Join(proc, "fd"))
	l[files] = float64(len(open))
	l[goroutines] = s.metric("go_goroutines")
	for _, dir := range []string{"state", "processes"} {
		_ = filepath.WalkDir(filepath.Join(s.w.dir, dir), func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil // gone meanwhile
			}
			if info, err := d.Info(); err == nil {
				l[onDisk] += float64(info.Size()) / (1 << 20)
			}
			return nil
		})
	}
	return l
}

// metric reads one number of /metrics.
func (s *soak) metric(name string) float64 {
	_, port, _ := net.SplitHostPort(s.p.door)
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

// finish waits until all is answered, and ends the invoker.
func (s *soak) finish() {
	t := s.w.t
	t.Helper()
	if err := s.c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := s.w.tape.end("invoker0")
	if n := s.sent.Load(); end < n {
		t.Errorf("the topic ends at %d for %d activations", end, n)
	}
	late := time.After(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.w.tape.committed() < end {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the position is %d of %d", s.w.tape.committed(), end)
		}
	}
	s.p.terminate()
	if acks := s.w.tape.completions(); acks < s.sent.Load() {
		t.Errorf("%d completions for %d activations", acks, s.sent.Load())
	}
	for _, n := range []int64{1, s.sent.Load() / 2, s.sent.Load()} {
		if s.w.record(fmt.Sprintf("%032x", n)) == nil {
			t.Errorf("activation %d has no record", n)
		}
	}
	s.w.noStrays()
}
