package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// shortChaos is how many invokers end in the short form; GPUWHISK_CHAOS_ROUNDS
// says another number, GPUWHISK_CHAOS_SEED which ends and faults they meet.
const shortChaos = 4

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number from 1", variable, text)
	}
	return n
}

// chaos is a fixture, what can fail in it, and what was seen.
type chaos struct {
	*mix
	t       *testing.T
	r       *rand.Rand
	bus     bus
	front   *front
	disk    *disk // nil: none can be filled here
	clock   clock // nil: it cannot be stepped here
	long    bool  // one of many fixtures that run for long
	sum     *tallied
	p       *victim
	failing func() // ends the fault that lasts; nil: there is none
	acked   map[string]bool
	read    int // of the recording
	table   map[string]int
	spent   map[string]time.Duration
	ends    int
	checks  int
	verdict verdict
}

func newChaos(w *fixture, b bus, tally *tally, gpu bool) *chaos {
	t := w.t
	t.Helper()
	w.once = true
	w.deploy()
	c := &chaos{
		t: t, bus: b, front: newFront(t, w.couch), acked: map[string]bool{}, table: map[string]int{}, spent: map[string]time.Duration{},
		mix: newMix(w, tally, gpu && shimIsThere(t)),
	}
	w.couch = c.front.url
	w.extra = append(w.extra, "CONFIG_whisk_gpu_flushDeadline=5 s")
	var err error
	if c.disk, err = newDisk(t, filepath.Join(w.dir, "state")); err != nil {
		t.Logf("the disk is never full: %v (that takes root)", err)
	}
	path := filepath.Join(w.dir, "clock")
	if clock, err := openClock(path); err != nil {
		t.Fatal(err)
	} else {
		t.Cleanup(clock.close)
		if output, ok := c.tryClock(path); ok {
			c.clock = clock
			w.extra = append(w.extra, clockVariable+"="+path)
		} else {
			t.Logf("the clock is never stepped: %s", output)
		}
	}
	return c
}

// shimIsThere reports whether GPU functions can be had. Where peers must be, so
// must the shim.
func shimIsThere(t *testing.T) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join("..", "..", "..", "build", "shim", "libgpuwhisk.so"))
	if err != nil && os.Getenv("GPUWHISK_REQUIRE_PEERS") != "1" {
		t.Logf("without GPU functions: %v (make shim-fake)", err)
		return false
	}
	return true
}

// tryClock has a process try whether its clock can be stepped.
func (c *chaos) tryClock(path string) (output string, ok bool) {
	out, err := exec.Command(c.w.program(), roleClock, path).CombinedOutput()
	return string(bytes.TrimSpace(out)), err == nil
}

// victim is an invoker that will be ended.
type victim struct {
	cmd    *exec.Cmd
	ready  chan struct{} // closed when it takes activations
	ended  chan struct{} // closed when it has ended
	err    error         // how, afterwards
	mu     sync.Mutex
	output bytes.Buffer
}

func (v *victim) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.output.Write(p)
}

func (v *victim) last() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := v.output.String()
	return text[max(0, len(text)-4000):]
}

// launch starts an invoker and does not wait for it.
func (c *chaos) launch() {
	c.t.Helper()
	v := &victim{ready: make(chan struct{}), ended: make(chan struct{})}
	v.cmd = exec.Command(c.w.program(), append([]string{roleInvoker}, c.w.args()...)...)
	v.cmd.Env = append(c.w.environment(), "PATH="+os.Getenv("PATH"))
	var log io.Writer = v
	if dir := os.Getenv("GPUWHISK_CHAOS_LOGS"); dir != "" {
		f, err := os.OpenFile(filepath.Join(dir, strings.ReplaceAll(c.t.Name(), "/", "-")+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			c.t.Fatal(err)
		}
		defer f.Close()
		fmt.Fprintf(f, "== invoker %d\n", c.ends+1)
		log = io.MultiWriter(v, f)
		v.cmd.Stderr = f
	}
	if v.cmd.Stderr == nil {
		v.cmd.Stderr = log
	}
	out, err := v.cmd.StdoutPipe()
	if err == nil {
		err = peertest.Start(v.cmd)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = v.cmd.Process.Kill() })
	go func() {
		defer close(v.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == ready {
				close(v.ready)
			}
		}
		v.err = v.cmd.Wait()
	}()
	c.p = v
}

// alive returns when the invoker takes activations. One that cannot start on a
// full disk ends, as a service manager would have it, and is started anew.
func (c *chaos) alive() {
	c.t.Helper()
	defer c.spend("an invoker to be ready")()
	late := time.After(forbearance)
	for {
		select {
		case <-c.p.ready:
			return
		case <-c.p.ended:
			if c.p.err == nil || c.failing == nil {
				c.t.Fatalf("the invoker ended at its start: %v\n%s", c.p.err, c.p.last())
			}
			c.table["did not start, began again"]++
			c.well()
			c.launch()
		case <-late:
			c.t.Fatalf("the invoker is not ready\n%s", c.p.last())
		}
	}
}

// well ends the fault that lasts.
func (c *chaos) well() {
	if c.failing != nil {
		defer c.spend("a fault to be over")()
		c.failing()
		c.failing = nil
	}
}

// run ends so many invokers and then looks a last time.
func (c *chaos) run(seed, rounds int) {
	t := c.t
	t.Logf("seed %d, %d rounds (GPUWHISK_CHAOS_SEED, GPUWHISK_CHAOS_ROUNDS)", seed, rounds)
	defer c.print(seed)
	c.r = rand.New(rand.NewPCG(uint64(seed), 1))
	c.launch()
	c.alive()
	const every = 5
	first, deck := c.r.IntN(len(c.faults())), slices.Clone(ways)
	over := time.Now().Add(time.Duration(number(t, "GPUWHISK_CHAOS_MINUTES", 24*60)) * time.Minute)
	for i := range rounds {
		if time.Now().After(over) {
			t.Logf("the time is up after %d rounds", i)
			break
		}
		if c.sum != nil && c.sum.full(c) {
			t.Logf("enough invokers have ended, after %d rounds", i)
			break
		}
		if i%len(ways) == 0 {
			c.r.Shuffle(len(ways), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		}
		c.round(c.draw(first+i, deck[i%len(deck)]))
		if i%every == every-1 && i+1 < rounds {
			c.checkpoint()
		}
		if t.Failed() {
			return
		}
	}
	c.checkpoint()
	c.judge(&c.verdict) // the one that was started last ran nothing again
	if err := c.p.stop(); err != nil {
		t.Errorf("the invoker ended with %v\n%s", err, c.p.last())
	}
}

// spend begins to count what time goes to; what it gives ends that.
func (c *chaos) spend(on string) (done func()) {
	began := time.Now()
	return func() { c.spent[on] += time.Since(began) }
}

// report has the invoker end as an operator does.
func (c *chaos) report() {
	c.t.Helper()
	defer c.spend("an invoker to end")()
	if err := c.p.stop(); err != nil {
		c.t.Errorf("the invoker ended with %v\n%s", err, c.p.last())
	}
}

// print says what happened.
func (c *chaos) print(seed int) {
	if c.sum != nil {
		c.sum.add(c)
	}
	c.t.Logf("seed %d: %s", seed, c.seen())
}

// checkpoint has everything settle, ends the invoker as an operator does, and
// demands that all is accounted for and nothing is left. Another one is started.
func (c *chaos) checkpoint() {
	t := c.t
	t.Helper()
	c.well()
	c.alive()
	done := c.spend("all to be answered, at a checkpoint")
	c.settled(c.calls)
	done()
	done = c.spend("all to be recorded and committed, at a checkpoint")
	for _, one := range c.calls {
		if !one.sealed {
			c.recorded(one)
		}
	}
	c.covered()
	done()
	c.report()
	c.ends++
	c.table["told to stop at a checkpoint"]++
	done = c.spend("the judgement, at a checkpoint")
	c.judge(&c.verdict)
	if bytes, dead := c.w.spooled(); bytes > 0 || dead > 0 {
		t.Errorf("%d bytes of records wait, %d records are dead letters", bytes, dead)
	}
	c.w.noStrays()
	done()
	c.checks++
	if c.sum != nil {
		c.sum.add(c)
		t.Logf("so far %s", c.sum.output())
	}
	c.launch()
	c.alive()
}

// settled waits for the completions of activations.
func (c *chaos) settled(calls []*call) {
	c.t.Helper()
	late := time.After(forbearance)
	for _, one := range calls {
		for !c.hasAck(one.id) {
			_, more := c.w.recording.all()
			if c.hasAck(one.id) {
				break
			}
			select {
			case <-more:
			case <-late:
				c.t.Fatalf("activation %d of %s has no ack; it ran %d times, its record is %q\n%s",
					one.n, one.action, c.tally.of("/"+one.id), c.w.record(one.id), c.p.last())
			}
		}
	}
}

func (c *chaos) hasAck(id string) bool {
	records, _ := c.w.recording.all()
	for ; c.read < len(records); c.read++ {
		if r := records[c.read]; r.isAck() && r.shape() != "result" {
			c.acked[r.activationID()] = true
		}
	}
	return c.acked[id]
}

// recorded waits for the record of an activation that has its ack.
func (c *chaos) recorded(one *call) {
	c.t.Helper()
	late := time.After(forbearance)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for c.w.record(one.id) == nil {
		select {
		case <-tick.C:
		case <-late:
			c.t.Fatalf("activation %d of %s has an ack and no record\n%s", one.n, one.action, c.p.last())
		}
	}
}

// covered waits until the position is at the end of the topic. The invoker may
// have begun a moment ago: what the one before it had ended, and not committed, is
// passed over by this one.
func (c *chaos) covered() {
	c.t.Helper()
	late := time.After(forbearance)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := c.w.recording.end("invoker0"); c.w.recording.committed() != end; {
		select {
		case <-tick.C:
		case <-late:
			c.t.Fatalf("the position is %d of %d\n%s", c.w.recording.committed(), end, c.p.last())
		}
	}
}

func (v *victim) kill() {
	_ = v.cmd.Process.Kill()
	<-v.ended
}

// stop asks the invoker to end and waits for that.
func (v *victim) stop() error {
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-v.ended:
		return v.err
	case <-time.After(forbearance):
		return cmp.Or(v.cmd.Process.Kill(), fmt.Errorf("not ended by SIGTERM in %s", forbearance))
	}
}
