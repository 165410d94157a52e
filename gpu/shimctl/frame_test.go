package shimctl

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestFramesRoundTrip(t *testing.T) {
	b := encode(typeDone, 9, pair(4, 3), pair(2, 0), 100, 200, 300)
	f, err := decode(b)
	want := doneFrame{Command: 4, Status: 3, Code: 2, Moved: 100, Nanoseconds: 200, Still: 300}
	check.NoError(t, err)
	check.Equal(t, f.epoch, 9)
	check.Equal(t, f.done, want)
	f, err = decode(encode(typeUsage, 1, pair(2, 0), 3, 4, 5, 6, 7))
	usage := usageFrame{Contexts: 2, Allocated: 3, Resident: 4, Fixed: 5, Pinned: 6, Blocks: 7, Managed: 0, Listed: 5}
	check.NoError(t, err)
	check.Equal(t, f.usage, usage, "from a shim that is older: more fixed than allocated")
	f, err = decode(encode(typeUsage, 1, pair(2, 0), 9, 4, 5, 6, 7))
	check.NoError(t, err)
	check.Equal(t, f.usage.Managed, 4, "from a shim that is older: all but the fixed part")
	f, err = decode(encode(typeUsage, 1, pair(2, 0), 9, 8, 5, 6, 7, 1, 6))
	usage = usageFrame{Contexts: 2, Allocated: 9, Resident: 8, Fixed: 5, Pinned: 6, Blocks: 7, Managed: 1, Listed: 6}
	check.NoError(t, err)
	check.Equal(t, f.usage, usage)
	// A newer shim may send more, and other frames.
	_, err = decode(append(encode(typePong, 1), 0))
	check.ErrorIs(t, err, errFrame, "a frame of another length than its header")
	f, err = decode(encode(frameType(77), 5, 1, 2))
	check.NoError(t, err, "an unknown frame")
	check.Equal(t, f.kind, 77, "an unknown frame")
}

func FuzzFrame(f *testing.F) {
	f.Add(encode(typeHello, 0, pair(1, 2), pair(0, 56)))
	f.Add(encode(typeDone, 9, pair(4, 3), pair(2, 0), 100, 200, 300))
	f.Add(encode(typeUsage, 1, pair(2, 0), 3, 4, 5, 6, 7))
	f.Add(encode(typeUsage, 1, pair(2, 0), 9, 8, 5, 6, 7, 1, 6))
	f.Add(encode(typeRefused, 0, pair(2, 719)))
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		buf := make([]byte, frameMax)
		for {
			left := r.Len()
			got, err := readFrame(r, buf)
			if err != nil {
				if !errors.Is(err, errFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("error of another kind: %v", err)
				}
				return
			}
			took := left - r.Len()
			check.AtLeast(check.Must(t), took, headerSize)
			check.AtMost(check.Must(t), took, frameMax)
			var d Done
			d.add(got.done)
			check.AtLeast(check.Must(t), d.Moved, 0)
			check.AtMost(check.Must(t), d.Moved, maxBytes)
			check.AtLeast(check.Must(t), d.Took, 0)
			check.AtLeast(check.Must(t), d.Resident, 0)
		}
	})
}
