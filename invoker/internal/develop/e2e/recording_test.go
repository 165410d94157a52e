package e2e

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// recording has the acks that the invoker sends to controller 0, read from the
// broker beside the controller.
type recording struct {
	*harness.Recording

	mu   sync.Mutex
	read int
	acks map[activation.ID][]activation.Ack
}

func newRecording(t *testing.T, kafka string) *recording {
	return &recording{Recording: harness.RecordFromNow(t, kafka, "completed0"), acks: map[activation.ID][]activation.Ack{}}
}

// of gives the acks of an activation that came until now.
func (p *recording) of(t *testing.T, id activation.ID) []activation.Ack {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	records, _ := p.All()
	for ; p.read < len(records); p.read++ {
		ack, err := activation.DecodeAck([]byte(records[p.read].Value))
		if err != nil {
			t.Errorf("undecodable ack: %v", err)
			continue
		}
		p.acks[ack.ActivationID] = append(p.acks[ack.ActivationID], ack)
	}
	return p.acks[id]
}

// freed counts the slot-freeing acks that came for the ids.
func (p *platform) freed(ids map[activation.ID]int) (n int) {
	for id := range ids {
		n += p.recording.Completed(string(id))
	}
	return n
}

// completed waits for the ack that ends an activation, and gives them all.
func (p *platform) completed(id activation.ID) (acks []activation.Ack) {
	p.t.Helper()
	peertest.Until(p.t, "activation "+string(id), func() string {
		if acks = p.recording.of(p.t, id); len(acks) == 0 || !acks[len(acks)-1].FreesSlot() {
			return fmt.Sprintf("no completion among %d acks", len(acks))
		}
		return ""
	})
	return acks
}
