package zookeeper

import (
	"encoding/hex"
	"math"
	"math/big"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestEncodeID(t *testing.T) {
	for id, want := range map[int]string{
		0: "00", 1: "01", 127: "7f", 128: "0080", 255: "00ff", 256: "0100", 32767: "7fff", 32768: "008000",
		65535: "00ffff", math.MaxInt32: "7fffffff",
	} {
		if got := hex.EncodeToString(encodeID(id)); got != want {
			t.Errorf("encodeID(%d) = %s, want %s", id, got, want)
		}
	}
}

func TestDecodeID(t *testing.T) {
	for _, tt := range []struct {
		bytes string
		want  int
		bad   bool
	}{
		{"00", 0, false}, {"7f", 127, false}, {"0080", 128, false}, {"00000005", 5, false}, {"7fffffff", math.MaxInt32, false},
		{"", 0, true}, {"80", 0, true}, {"ffff", 0, true}, {"0080000000", 0, true}, {"000000000000000001", 0, true},
	} {
		b, _ := hex.DecodeString(tt.bytes)
		got, err := decodeID(b)
		check.Equal(t, got, tt.want, "%s", tt.bytes)
		check.Equal(t, err != nil, tt.bad, "%s: %v", tt.bytes, err)
	}
}

func TestEncodeCounter(t *testing.T) {
	for n, want := range map[int]string{0: "00000000", 1: "00000001", 256: "00000100", 70000: "00011170"} {
		if got := hex.EncodeToString(encodeCounter(n)); got != want {
			t.Errorf("encodeCounter(%d) = %s, want %s", n, got, want)
		}
	}
}

// Java's BigInteger and Go's agree on values; only the leading zero byte is
// ours to get right.
func FuzzID(f *testing.F) {
	for _, n := range []uint32{0, 1, 127, 128, 255, 256, 1 << 30} {
		f.Add(n, []byte{byte(n)})
	}
	f.Fuzz(func(t *testing.T, n uint32, raw []byte) {
		id := int(n & math.MaxInt32)
		b := encodeID(id)
		back, err := decodeID(b)
		check.NoError(t, err, "%d is % x", id, b)
		check.Equal(t, back, id, "% x", b)
		check.Less(t, b[0], 0x80, "%d is % x", id, b)
		check.That(t, len(b) == 1 || b[0] != 0 || b[1] >= 0x80, "%d is % x, not minimal", id, b)
		check.Equal(t, new(big.Int).SetBytes(b).Int64(), int64(id), "% x", b)
		if got, err := decodeID(raw); err == nil {
			check.AtLeast(t, got, 0, "% x", raw)
			check.Equal(t, int64(got), new(big.Int).SetBytes(raw).Int64(), "% x", raw)
		}
	})
}
