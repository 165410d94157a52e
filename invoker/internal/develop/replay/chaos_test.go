package replay

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// shortChaos is how many invokers end in the short form; GPUWHISK_CHAOS_ROUNDS
// sets another number, GPUWHISK_CHAOS_SEED which ends and faults they meet.
const shortChaos = 4

// chaos is a fixture with its possible faults and the observed events.
type chaos struct {
	*fixture
	r        *rand.Rand
	database harness.Faults // of it, for invokers alone
	disk     *disk          // nil: no disk can be filled here
	clock    clock          // nil: it cannot be stepped here
	long     bool           // one of many fixtures that run for long
	enough   int            // ends of invokers in all fixtures
	p        *harness.Process
	failing  func() // ends the fault that lasts; nil: there is none
	calls    []*call
	kinds    []string
	tally    tally
}

func newChaos(w *fixture, gpu bool, all *tally) *chaos {
	t := w.T
	t.Helper()
	c := &chaos{fixture: w, enough: math.MaxInt, tally: tally{of: map[string]int{}, all: all}}
	w.Couch = harness.Proxy(t, w.Couch, c.database.Wrap)
	c.deployMix(gpu && shimIsThere(t))
	w.Settings = append(w.Settings, "CONFIG_whisk_gpu_flushDeadline=5 s")
	var err error
	if c.disk, err = newDisk(t, filepath.Join(w.Dir, "state")); err != nil {
		t.Logf("the disk is never full: %v (that takes root)", err)
	}
	path := filepath.Join(w.Dir, "clock")
	clock, err := openClock(path)
	check.NoError(t, err)
	t.Cleanup(clock.close)
	if output, ok := c.tryClock(path); ok {
		c.clock = clock
		w.Settings = append(w.Settings, clockVariable+"="+path)
	} else {
		t.Logf("the clock is never stepped: %s", output)
	}
	return c
}

// shimIsThere reports whether GPU functions can be had. Where peers must be, so
// must the shim.
func shimIsThere(t testing.TB) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join("..", "..", "..", "..", "build", "shim", "libgpuwhisk.so"))
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

// begin starts an invoker. It returns before the invoker is ready.
func (c *chaos) begin() {
	c.T.Helper()
	cmd := harness.Command(c.Environment(), c.Args(0)...)
	if dir := os.Getenv("GPUWHISK_CHAOS_LOGS"); dir != "" {
		f, err := os.OpenFile(filepath.Join(dir, strings.ReplaceAll(c.T.Name(), "/", "-")+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		check.NoError(c.T, err)
		c.T.Cleanup(func() { _ = f.Close() })
		fmt.Fprintf(f, "== invoker %d\n", c.tally.count(ends)+1)
		cmd.Stderr = f
	}
	c.p = harness.Launch(c.T, cmd)
}

// alive blocks until the invoker accepts activations. An invoker that cannot start on a
// full disk ends, and is restarted as by a service manager.
func (c *chaos) alive() {
	c.T.Helper()
	for {
		err := c.p.AwaitWithin(limit)
		if err == nil {
			return
		}
		select {
		case <-c.p.Ended:
		default:
			c.T.Fatal(err)
		}
		check.That(check.Must(c.T), c.p.Err != nil, "it ended well: %v", err)
		check.That(check.Must(c.T), c.failing != nil, "it ended while nothing fails: %v", err)
		c.tally.add("did not start, began again", 1)
		c.well()
		c.begin()
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
	t := c.T
	t.Logf("seed %d, %d rounds (GPUWHISK_CHAOS_SEED, GPUWHISK_CHAOS_ROUNDS)", seed, rounds)
	defer func() {
		if t.Failed() {
			c.tally.add(fixturesThatFailed, 1)
		}
		t.Logf("seed %d: %s", seed, &c.tally)
	}()
	c.tally.add("fixtures", 1)
	c.r = rand.New(rand.NewPCG(uint64(seed), 1))
	c.begin()
	c.alive()
	const every = 5
	first, deck := c.r.IntN(len(c.faults())), slices.Clone(ways)
	over := time.Now().Add(time.Duration(harness.Number(t, "GPUWHISK_CHAOS_MINUTES", 24*60)) * time.Minute)
	for i := range rounds {
		if time.Now().After(over) {
			t.Logf("the time is up after %d rounds", i)
			break
		}
		if all := c.tally.all; all != nil && all.count(ends) >= c.enough {
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
	c.judge() // the last invoker reran nothing
	c.stop()
}

// stop ends the invoker as an operator does.
func (c *chaos) stop() {
	c.T.Helper()
	if err := c.p.StopWithin(limit, os.Interrupt); err != nil {
		c.T.Error(err)
	}
}

// checkpoint has everything settle, ends the invoker as an operator does, and
// demands that all is accounted for and nothing is left. Another one is started.
func (c *chaos) checkpoint() {
	t := c.T
	t.Helper()
	c.well()
	c.alive()
	c.settled(c.calls)
	c.until("records", func() string {
		for _, one := range c.calls {
			if !one.sealed && c.StoredRecord(one.id) == nil {
				return fmt.Sprintf("activation %d of %s has an ack and none", one.n, one.action)
			}
		}
		return ""
	})
	c.until("the committed position", c.behind)
	c.stop()
	c.tally.add(ends, 1)
	c.tally.add("asked to stop at a checkpoint", 1)
	c.judge()
	bytes, dead := c.spooled()
	check.AtMost(t, bytes, 0, "records wait")
	check.AtMost(t, dead, 0, "records are dead letters")
	c.noStrays()
	c.tally.add("checkpoints", 1)
	if c.tally.all != nil {
		t.Logf("so far %s", c.tally.all)
	}
	c.begin()
	c.alive()
}

// settled waits for the completions of activations.
func (c *chaos) settled(calls []*call) {
	c.T.Helper()
	c.until("completions", func() string {
		for _, one := range calls {
			if c.Recording.Completed(one.id) == 0 {
				return fmt.Sprintf("activation %d of %s has none; it ran %d times, its record is %q",
					one.n, one.action, c.Gate.RunsOf("/"+one.id), c.StoredRecord(one.id))
			}
		}
		return ""
	})
}

// until is peertest's, for as long as chaos takes, with the end of the invoker's log.
func (c *chaos) until(what string, whyNot func() string) {
	c.T.Helper()
	peertest.UntilWithin(c.T, limit, what, func() string {
		if reason := whyNot(); reason != "" {
			return reason + "\n" + c.p.Output.String()
		}
		return ""
	})
}
