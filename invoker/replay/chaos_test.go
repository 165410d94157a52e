package replay

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// shortChaos is how many invokers end in the short form; GPUWHISK_CHAOS_ROUNDS
// says another number, GPUWHISK_CHAOS_SEED which ends they meet.
const shortChaos = 3

// TestChaos ends one invoker after the other at moments and in ways that the
// seed picks: killed, told to stop, or stopped in the midst of its work and
// killed then. Nothing may run twice here, and nothing may be lost: each
// activation has an ack that frees its slot and one record, of its answer or of
// what interrupted it, and its action ran once at most.
func TestChaos(t *testing.T) {
	t.Parallel()
	rounds, seed := number(t, "GPUWHISK_CHAOS_ROUNDS", shortChaos), number(t, "GPUWHISK_CHAOS_SEED", int(time.Now().UnixNano()%1e9))
	t.Logf("seed %d, %d rounds (GPUWHISK_CHAOS_SEED, GPUWHISK_CHAOS_ROUNDS)", seed, rounds)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	w := newWorld(t)
	w.once = true
	runs := newTally(t)
	c := newCrowd(w)
	c.gate.server.Close()
	c.gate.server = runs.server
	ends := map[string]int{}
	for range rounds {
		p := w.spawn()
		ids := c.invoke(inFlight)
		c.settled(ids[:1+r.IntN(5)])
		switch r.IntN(3) {
		case 0:
			ends["killed"]++
			p.kill()
		case 1:
			ends["told to stop"]++
			p.terminate()
		case 2:
			ends["stood still, then killed"]++
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			c.invoke(r.IntN(inFlight)) // nobody hears of these before the next
			p.kill()
		}
	}
	last := w.spawn()
	c.settled(c.ids)
	last.terminate()
	answered, interrupted := 0, 0
	for i, id := range c.ids {
		var rec struct {
			Response struct {
				StatusCode int
				Result     struct {
					N     int
					Error string
				}
			}
		}
		if err := json.Unmarshal(w.record(id), &rec); err != nil {
			t.Errorf("activation %d: %v", i+1, err)
			continue
		}
		switch n := runs.of("/" + id); {
		case n > 1:
			t.Errorf("activation %d ran %d times", i+1, n)
		case rec.Response.StatusCode == 0 && rec.Response.Result.N == i+1 && n == 1:
			answered++
		case strings.HasPrefix(rec.Response.Result.Error, "The invoker ended while the action ran."):
			interrupted++
		default:
			t.Errorf("activation %d ran %d times and has the record %s", i+1, n, w.record(id))
		}
	}
	t.Logf("ends: %v; %d activations: %d answered, %d interrupted, 0 ran twice unless said above", ends, len(c.ids), answered, interrupted)
	if got, end := w.tape.committed(), w.tape.end("invoker0"); got != end {
		t.Errorf("the position is %d of %d", got, end)
	}
	w.noStrays()
}

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

// tally counts the runs of each activation, whichever invoker they belong to.
type tally struct {
	server *httptest.Server
	mu     sync.Mutex
	runs   map[string]int
}

func newTally(t *testing.T) *tally {
	a := &tally{runs: map[string]int{}}
	a.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.runs[r.URL.Path]++
		work := time.Duration(len(a.runs)%5) * 200 * time.Millisecond
		a.mu.Unlock()
		select { // so long the action works
		case <-time.After(work):
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(a.server.Close)
	return a
}

func (a *tally) of(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs[path]
}
