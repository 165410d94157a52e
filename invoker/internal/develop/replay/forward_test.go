package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// reporter is a GPU function that sends the name of its container, waits for the
// answer, and answers with its parameter n.
const reporter = `
import os, urllib.request
def main(args):
    urllib.request.urlopen(args["url"] + "/" + os.environ["GPUWHISK_CONTAINER"]).read()
    return {"n": args["n"]}
`

// members are the invokers with a GPU that are named to the one without.
const members = 3

// TestForwardToNamedInvokers: an invoker without a GPU forwards activations to three
// whole invokers with GPUs. One of the three is killed while it works. When its last
// ping is 10 s old, its functions go to the others. Its waiting activations wait for its
// return, its running ones are interrupted, nothing is lost or runs twice, and every ack
// names the invoker that the controller chose.
func TestForwardToNamedInvokers(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		newSharing(newFixture(t)).oneIsKilled()
	})
	if os.Getenv("GPUWHISK_CHAOS_REAL") == "" {
		return // make chaos has it beside an Apache Kafka of its own, too
	}
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		newSharing(newFixture(t, harness.Parts{Apache: true})).oneIsKilled()
	})
}

// sharing is invokers that share functions.
type sharing struct {
	w       *fixture
	gpu     []string // environment of the members
	members []*harness.Process
}

// shared is how many functions there are: enough that each of three members has
// some.
const shared = 12

func newSharing(w *fixture) *sharing {
	w.T.Helper()
	s := &sharing{w: w, gpu: append(harness.SimulatedGPU(w.T, "4 GiB"), "CONFIG_whisk_gpu_tokens=24")}
	w.Gate, w.Once = w.NewGate(), true
	w.Settings = append(w.Settings, "CONFIG_whisk_gpu_forwardTo=invoker1,invoker2,invoker3", "CONFIG_whisk_containerPool_userMemory=8192m")
	for i := range shared {
		w.Put(gpuFunction(fmt.Sprint("taken", i), reporter))
	}
	for id := 1; id <= members; id++ {
		s.members = append(s.members, w.Spawn(id, s.gpu...))
	}
	return s
}

// invoke sends one activation of each function to the invoker without a GPU.
func (s *sharing) invoke() {
	s.w.T.Helper()
	for i := range shared {
		s.w.Invoke(1, harness.Message{Action: fmt.Sprint("taken", i)})
	}
}

// begun waits until so many runs wait at the gate, and reports by activation
// which member each belongs to.
func (s *sharing) begun(n int) map[string]int {
	s.w.T.Helper()
	by := map[string]int{}
	for len(by) < n {
		id, container, _ := strings.Cut(strings.TrimPrefix(s.w.Gate.Next(), "/"), "/")
		for i := 1; i <= members; i++ {
			if strings.HasPrefix(container, fmt.Sprintf("wsk0%d_", i)) {
				check.Equal(s.w.T, by[id], 0, "activation %s runs twice", id)
				by[id] = i
			}
		}
		check.Greater(check.Must(s.w.T), by[id], 0, "a run in %q", container)
	}
	return by
}

// awaitTakers waits until the invoker without a GPU passes activations on to so many.
func (s *sharing) awaitTakers(front *harness.Process, n int) {
	s.w.T.Helper()
	front.Admin.Await(s.w.T, fmt.Sprint(n, " invokers take activations"), func(st harness.Status) bool {
		takers := 0
		for _, h := range st.Kafka.Forward {
			if h.Refuses == "" {
				takers++
			}
		}
		return takers == n
	})
}

func (s *sharing) oneIsKilled() {
	w, t := s.w, s.w.T
	t.Helper()
	front := w.Spawn(0, "CONFIG_whisk_gpu_simulated_devices=0")
	s.awaitTakers(front, members)
	s.invoke()
	by := s.begun(shared)
	had := map[int]int{}
	for _, member := range by {
		had[member]++
	}
	t.Logf("of %d functions the members have %v", shared, had)
	check.AtLeast(check.Must(t), len(had), 2, "all functions are with one member: %v", had)
	victim := by[w.IDs[0]]
	s.members[victim-1].Kill()
	s.awaitTakers(front, members-1)
	s.invoke()
	for id, member := range s.begun(shared) {
		check.That(t, member != victim, "activation %s is with the dead member", id)
		by[id] = member
	}
	s.w.Gate.Open()
	s.members[victim-1] = w.Spawn(victim, s.gpu...)
	w.AwaitSlot(w.IDs...)
	front.Terminate(t)
	for _, p := range s.members {
		p.Terminate(t)
	}
	s.check(by, victim)
	t.Logf("member %d was killed with %d runs", victim, had[victim])
}

// check demands an account of every activation that holds.
func (s *sharing) check(by map[string]int, victim int) {
	w, t := s.w, s.w.T
	t.Helper()
	for i, id := range w.IDs {
		doc := string(w.StoredRecord(id))
		want := fmt.Sprintf(`"result":{"n":%d}`, i+1)
		if by[id] == victim {
			want = "The invoker ended while the action ran."
		}
		check.That(t, strings.Contains(doc, want), "activation %d, of member %d: record %.400s", i+1, by[id], doc)
	}
	w.ranOnce()
	acks := 0
	for _, r := range w.Recording.ToTheEnd() {
		var ack struct {
			ActivationID string
			Instance     *struct{ Instance int }
		}
		if !r.IsAck() || json.Unmarshal([]byte(r.Value), &ack) != nil || ack.Instance == nil {
			continue
		}
		acks++
		check.Equal(t, ack.Instance.Instance, 0, "the ack of %s: the controller would free a slot that it did not take", r.ActivationID())
	}
	check.AtLeast(t, acks, len(w.IDs), "completions for activations")
}
