package sched

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// recording is a source of randomness that the fuzzer writes: a history is then a
// function of the bytes. It ends with the bytes.
type recording struct {
	bytes []byte
	over  uint64 // draws after the end
}

func (t *recording) Uint64() uint64 {
	if len(t.bytes) == 0 {
		t.over++ // a constant could be rejected for ever
		return t.over * 0x9e3779b97f4a7c15
	}
	var word [8]byte
	n := copy(word[4:], t.bytes[:min(2, len(t.bytes))]) // high bits decide IntN
	t.bytes = t.bytes[n:]
	return binary.LittleEndian.Uint64(word[:])<<16 | 0x8000
}

// FuzzHistory lets the fuzzer choose policy, options and every event, and holds
// the policy to its oracle and its invariants.
func FuzzHistory(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range len(Policies()) {
		seed := []byte{byte(i), byte(i)}
		for range 400 {
			seed = append(seed, byte(rng.Uint32()))
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2 {
			return
		}
		p := Policies()[int(data[0])%len(Policies())]
		cfg, _ := Defaults(p.Name)
		options := data[1]
		cfg.Namespaces = options&1 != 0
		cfg.Correct = options&2 != 0
		cfg.Wait = options&4 != 0
		cfg.Locality = options&8 != 0
		cfg.CountSetup = options&16 != 0
		cfg.TTLGlobal = options&32 != 0
		if options&64 != 0 {
			cfg.Overrun = 0
		}
		if options&128 != 0 {
			cfg.MaxFlows = 5
		}
		in := &recording{bytes: data[2:]}
		h, err := newHistory(rand.New(in), p.Name, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range 4000 {
			if in.over > 0 {
				return
			}
			if err := h.event(); err != nil {
				t.Fatalf("%s at %s: %v", p.Name, h.now, err)
			}
		}
	})
}
