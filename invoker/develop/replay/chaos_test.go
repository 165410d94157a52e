package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// shortChaos is how many invokers end in the short form; GPUWHISK_CHAOS_ROUNDS
// sets another number, GPUWHISK_CHAOS_SEED which ends and faults they meet.
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
	broker  func() (over func()) // kills it
	front   *front
	disk    *disk // nil: none can be filled here
	clock   clock // nil: it cannot be stepped here
	long    bool  // one of many fixtures that run for long
	sum     *tallied
	p       *harness.Process
	failing func() // ends the fault that lasts; nil: there is none
	acked   map[string]bool
	read    int // of the recording
	table   map[string]int
	ends    int
	checks  int
	verdict verdict
}

func newChaos(w *fixture, broker func() func(), gate *gate, gpu bool) *chaos {
	t := w.t
	t.Helper()
	w.once = true
	w.deploy()
	c := &chaos{
		t: t, broker: broker, front: newFront(t, w.couch), acked: map[string]bool{}, table: map[string]int{},
		mix: newMix(w, gate, gpu && shimIsThere(t)),
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
	out, err := exec.Command("/proc/self/exe", roleClock, path).CombinedOutput()
	return string(bytes.TrimSpace(out)), err == nil
}

// launch starts an invoker and does not wait for it.
func (c *chaos) launch() {
	c.t.Helper()
	cmd := harness.Command(c.w.environment(), c.w.args(0)...)
	if dir := os.Getenv("GPUWHISK_CHAOS_LOGS"); dir != "" {
		f, err := os.OpenFile(filepath.Join(dir, strings.ReplaceAll(c.t.Name(), "/", "-")+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = f.Close() })
		fmt.Fprintf(f, "== invoker %d\n", c.ends+1)
		cmd.Stderr = f
	}
	var err error
	if c.p, err = harness.Start(cmd); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.p.Kill)
}

// alive returns when the invoker takes activations. One that cannot start on a
// full disk ends, as a service manager would have it, and is started anew.
func (c *chaos) alive() {
	c.t.Helper()
	late := time.After(limit)
	for {
		select {
		case <-c.p.Ready:
			return
		case <-c.p.Ended:
			if c.p.Err == nil || c.failing == nil {
				c.t.Fatalf("the invoker ended at its start: %v\n%s", c.p.Err, &c.p.Output)
			}
			c.table["did not start, began again"]++
			c.well()
			c.launch()
		case <-late:
			c.t.Fatalf("the invoker is not ready\n%s", &c.p.Output)
		}
	}
}

// well ends the fault that lasts.
func (c *chaos) well() {
	if c.failing != nil {
		c.failing()
		c.failing = nil
	}
}

// run ends so many invokers and then checks a last time.
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
	if err := c.p.StopWithin(limit, os.Interrupt); err != nil {
		t.Error(err)
	}
}

// report has the invoker end as an operator does.
func (c *chaos) report() {
	c.t.Helper()
	if err := c.p.StopWithin(limit, os.Interrupt); err != nil {
		c.t.Error(err)
	}
}

// print logs what happened.
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
	c.settled(c.calls)
	for _, one := range c.calls {
		if !one.sealed {
			c.recorded(one)
		}
	}
	c.covered()
	c.report()
	c.ends++
	c.table["asked to stop at a checkpoint"]++
	c.judge(&c.verdict)
	if bytes, dead := c.w.spooled(); bytes > 0 || dead > 0 {
		t.Errorf("%d bytes of records wait, %d records are dead letters", bytes, dead)
	}
	c.w.noStrays()
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
	late := time.After(limit)
	for _, one := range calls {
		for !c.hasAck(one.id) {
			_, more := c.w.recording.All()
			if c.hasAck(one.id) {
				break
			}
			select {
			case <-more:
			case <-late:
				c.t.Fatalf("activation %d of %s has no ack; it ran %d times, its record is %q\n%s",
					one.n, one.action, c.gate.of("/"+one.id), c.w.record(one.id), &c.p.Output)
			}
		}
	}
}

func (c *chaos) hasAck(id string) bool {
	records, _ := c.w.recording.All()
	for ; c.read < len(records); c.read++ {
		if r := records[c.read]; r.FreesSlot() {
			c.acked[r.ActivationID()] = true
		}
	}
	return c.acked[id]
}

// recorded waits for the record of an activation that has its ack.
func (c *chaos) recorded(one *call) {
	c.t.Helper()
	peertest.UntilWithin(c.t, limit, fmt.Sprintf("activation %d of %s has an ack", one.n, one.action), func() string {
		if c.w.record(one.id) == nil {
			return "and no record\n" + c.p.Output.String()
		}
		return ""
	})
}

// covered waits until the position is at the end of the topic. The invoker may
// have begun a moment ago: what the one before it had ended, and not committed, is
// passed over by this one.
func (c *chaos) covered() {
	c.t.Helper()
	end := c.w.recording.End("invoker0")
	peertest.UntilWithin(c.t, limit, "the committed position", func() string {
		if at := c.w.recording.Committed("invoker0"); at != end {
			return fmt.Sprintf("%d of %d\n%s", at, end, &c.p.Output)
		}
		return ""
	})
}
