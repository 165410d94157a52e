package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// reporter is a GPU function that sends the name of its container, waits for the
// answer, and answers with its parameter n.
const reporter = `
import os, urllib.request
def main(args):
    urllib.request.urlopen(args["url"] + "/" + os.environ["GPUWHISK_CONTAINER"]).read()
    return {"n": args["n"]}
`

// members are the invokers with a GPU that share the forward topic.
const members = 3

// TestThreeShareTheForwardTopic: an invoker without a GPU passes activations
// on, and three whole invokers with one share them by Kafka's group protocol.
// One of the three is killed in the midst of its work. What it ran is not lost,
// its functions are served by the others when its session has ended, nothing
// runs twice, and every ack names the invoker that the controller chose.
func TestThreeShareTheForwardTopic(t *testing.T) {
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
		newSharing(apacheFixture(t)).oneIsKilled()
	})
}

// sharing is invokers that share functions.
type sharing struct {
	w       *fixture
	members []*harness.Process
}

// shared is how many functions there are: enough that each of three members has
// some.
const shared = 12

func newSharing(w *fixture) *sharing {
	w.t.Helper()
	s, gpu := &sharing{w: w}, append(harness.SimulatedGPU(w.t, "1 GiB"), "CONFIG_whisk_gpu_tokens=8")
	w.gate, w.once = newGate(w.t, "127.0.0.1"), true
	w.extra = append(w.extra, "CONFIG_whisk_gpu_forwardTopic=gpu", "CONFIG_whisk_containerPool_userMemory=8192m")
	for i := range shared {
		w.put(gpuFunction(fmt.Sprint("taken", i), reporter))
	}
	for id := 1; id <= members; id++ {
		s.members = append(s.members, w.spawnAs(id, gpu...))
	}
	return s
}

// invoke sends one activation of each function to the invoker without a GPU.
func (s *sharing) invoke() {
	s.w.t.Helper()
	for i := range shared {
		s.w.invoke(1, harness.Message{Action: fmt.Sprint("taken", i)})
	}
}

// begun waits until so many runs wait at the gate, and reports by activation
// which member each belongs to.
func (s *sharing) begun(n int) map[string]int {
	s.w.t.Helper()
	by := map[string]int{}
	for len(by) < n {
		id, container, _ := strings.Cut(strings.TrimPrefix(s.w.gate.next(), "/"), "/")
		for i := 1; i <= members; i++ {
			if strings.HasPrefix(container, fmt.Sprintf("wsk0%d_", i)) {
				check.Equal(s.w.t, by[id], 0, "activation %s runs twice", id)
				by[id] = i
			}
		}
		check.Greater(check.Must(s.w.t), by[id], 0, "a run in %q", container)
	}
	return by
}

// awaitShares waits until each member has its share of the partitions.
func (s *sharing) awaitShares() {
	s.w.t.Helper()
	cfg, err := config.Load(config.Input{Environ: s.w.environment(), Args: s.w.args(0)})
	check.NoError(s.w.t, err)
	peertest.Until(s.w.t, "the members do not share the partitions evenly", func() string {
		for i, p := range s.members {
			if n := len(p.Admin.Status(s.w.t).Kafka.Forward.Partitions); n != cfg.GPU.ForwardPartitions/members {
				return fmt.Sprintf("member %d has %d", i+1, n)
			}
		}
		return ""
	})
}

func (s *sharing) oneIsKilled() {
	w, t := s.w, s.w.t
	t.Helper()
	front := w.spawnAs(0, "CONFIG_whisk_gpu_simulated_devices=0")
	s.awaitShares()
	s.invoke()
	by := s.begun(shared)
	had := map[int]int{}
	for _, member := range by {
		had[member]++
	}
	t.Logf("of %d functions the members have %v", shared, had)
	check.AtLeast(check.Must(t), len(had), 2, "all functions are with one member: %v", had)
	victim := by[w.ids[0]]
	s.members[victim-1].Kill()

	// Those that ran there are answered by the next member that has the partition while the
	// others are still at the gate. A second round reaches all functions.
	dead := 0
	for _, id := range w.ids {
		if by[id] == victim {
			dead++
			w.awaitSlot(id)
		}
	}
	s.w.gate.open()
	s.invoke()
	w.awaitSlot(w.ids...)
	front.Terminate(t)
	for i, p := range s.members {
		if i != victim-1 {
			p.Terminate(t)
		}
	}
	s.check(by, victim)
	t.Logf("member %d was killed with %d runs", victim, dead)
}

// check demands an account of every activation that holds.
func (s *sharing) check(by map[string]int, victim int) {
	w, t := s.w, s.w.t
	t.Helper()
	for i, id := range w.ids {
		doc := string(w.record(id))
		want := fmt.Sprintf(`"result":{"n":%d}`, i+1)
		if by[id] == victim {
			want = "The invoker ended while the action ran."
		}
		check.That(t, strings.Contains(doc, want), "activation %d, of member %d: record %.400s", i+1, by[id], doc)
	}
	w.ranOnce()
	acks := 0
	for _, r := range w.recording.ToTheEnd() {
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
	check.AtLeast(t, acks, len(w.ids), "completions for activations")
}
