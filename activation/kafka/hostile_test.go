package kafka

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// hostile makes a hostile message from a valid one: damaged, deeply nested, repetitive, or
// with wrong types.
func hostile(r *rand.Rand, good []byte) []byte {
	switch r.IntN(7) {
	case 0: // flipped bits
		b := append([]byte{}, good...)
		for range 1 + r.IntN(8) {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
		return b
	case 1: // cut off
		return good[:r.IntN(len(good))]
	case 2: // deep
		depth := 1 + r.IntN(2000)
		open, shut := "[", "]"
		if r.IntN(2) == 0 {
			open, shut = `{"a":`, "}"
		}
		return content(good, strings.Repeat(open, depth)+"1"+strings.Repeat(shut, depth))
	case 3: // long numbers
		return content(good, "1"+strings.Repeat("0", r.IntN(2000))+"e"+strings.Repeat("9", 1+r.IntN(20)))
	case 4: // one name again and again
		return content(good, "{"+strings.Repeat(`"a":1,`, r.IntN(500))+`"a":2}`)
	case 5: // broken text
		return content(good, `"`+strings.Repeat(`\ud800`, r.IntN(300))+"\xff\xfe"+`"`)
	default: // noise
		b := make([]byte, r.IntN(400))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
}

// content replaces the parameters of a message.
func content(good []byte, value string) []byte {
	return []byte(strings.Replace(string(good), `"content":{`, `"content":`+value+`,"was":{`, 1))
}

// Hostile messages do not end the feed's goroutine and do not stay open. The next valid
// message is delivered, and the position passes all messages. With GPUWHISK_LONG a million
// hostile messages are decoded.
func TestFeedPassesHostileMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(99, 1))
	good := []byte(message(1))
	decoded := 4_000
	if os.Getenv("GPUWHISK_LONG") != "" {
		decoded = 1_000_000
	}
	for range decoded {
		_, _ = activation.DecodeMessage(hostile(r, good))
	}
	b := newFakeFixture(t)
	topic := b.topic()
	const many = 500
	for range many {
		b.put(topic, string(hostile(r, good)))
	}
	b.put(topic, message(7))
	f, began := b.feed(topic), time.Now()
	for {
		d, err := f.Next(b.ctx())
		check.NoError(t, err)
		d.Done()
		if d.Offset == many {
			break
		}
	}
	b.await("the position to pass all", func() bool { return b.committed(topic, topic) == many+1 })
	s := f.Stats()
	check.That(t, s.Undecodable != 0, "stats %+v", s)
	check.Equal(t, s.Open, 0)
	n := b.log.count("cannot be decoded")
	check.AtMost(t, n, 1+int(time.Since(began)/retry.LogPause), "%d lines about %d messages that cannot be decoded, want one a minute", n, s.Undecodable)
	check.AtMost(t, b.log.count(secret[:8]), 0, "a secret is in the log")
}
