package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// captured is an activation message that a controller of OpenWhisk sent, with
// the name and revision of an action of ours.
func captured(t *testing.T, p *platform) []byte {
	t.Helper()
	p.create("mutant", "python:3", "def main(p):\n    return p\n", limits(0, 128, 0))
	doc, err := p.db.Get(t.Context(), p.db.Names().Whisks, "guest/mutant")
	check.NoError(t, err)
	var entity struct {
		Rev string `json:"_rev"`
	}
	check.NoError(t, json.Unmarshal(doc, &entity))
	text := strings.NewReplacer("@NAME@", "mutant", "@REVISION@", entity.Rev).Replace(string(harness.Read(t, "testdata/message.json")))
	m := bytes.TrimSpace([]byte(text))
	_, err = activation.DecodeMessage(m)
	check.NoError(t, err, "the captured message")
	return m
}

// mutants are the message with each byte flipped in turn, and cut at each.
func mutants(m []byte) [][]byte {
	var all [][]byte
	for i := range m {
		for _, bit := range []byte{1, 0x80} {
			flipped := bytes.Clone(m)
			flipped[i] ^= bit
			all = append(all, flipped)
		}
		all = append(all, m[:i:i])
	}
	return append(all, nil, []byte("null"), []byte("[]"), []byte("{}"), []byte(`"x"`), bytes.Repeat([]byte("["), 100_000),
		bytes.Repeat([]byte{0xff}, 1000), append(bytes.Clone(m), m...), append(bytes.Clone(m), "x"...))
}

// TestMutilatedMessages puts thousands of broken messages on the topic. A message that
// is still valid is answered once, and others are counted and skipped. The feed
// continues, and its offset passes all of them.
func TestMutilatedMessages(t *testing.T) {
	withEachParts(t, func(t *testing.T, w parts) {
		p := start(t, w, setup{})
		m := captured(t, p)
		expected, unreadable, answers := map[activation.ID]int{}, 0, 0
		all := mutants(m)
		for _, mutant := range all {
			switch got, err := activation.DecodeMessage(mutant); {
			case err != nil:
				unreadable++
			case got.Controller == "0":
				expected[got.ActivationID]++
				answers++
			}
		}
		check.AtLeast(check.Must(t), unreadable, len(m), "of %d: the test is wrong", len(all))
		check.AtLeast(check.Must(t), answers, len(m)/20, "of %d: the test is wrong", len(all))
		before := p.status().Kafka.Feed
		p.recording.Publish(t, "invoker0", all...)
		peertest.UntilWithin(t, 2*peertest.WaitLimit, "messages are answered", func() string {
			if n := p.freed(expected); n < answers {
				return fmt.Sprintf("%d of %d", n, answers)
			}
			return ""
		})
		p.hello("after")
		p.greets("after")
		p.atRest() // and so the committed offset has passed them
		check.Equal(t, int(p.status().Kafka.Feed.Undecodable-before.Undecodable), unreadable, "messages that were counted as unreadable")
		check.Equal(t, p.freed(expected), answers, "acks for messages")
		t.Logf("%d messages: %d unreadable, %d answered", len(all), unreadable, answers)
	})
}
