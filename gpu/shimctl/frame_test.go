package shimctl

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestFramesRoundTrip(t *testing.T) {
	b := encode(typeDone, 9, pair(4, 3), pair(2, 0), 100, 200, 300)
	f, err := decode(b)
	want := doneFrame{command: 4, status: 3, code: 2, moved: 100, nanoseconds: 200, still: 300}
	if err != nil || f.epoch != 9 || f.done != want {
		t.Errorf("%+v, %v", f, err)
	}
	f, err = decode(encode(typeUsage, 1, pair(2, 0), 3, 4, 5, 6, 7))
	usage := usageFrame{contexts: 2, allocated: 3, resident: 4, fixed: 5, pinned: 6, blocks: 7}
	if err != nil || f.usage != usage {
		t.Errorf("%+v, %v", f, err)
	}
	// A newer shim may send more, and other frames.
	if _, err := decode(append(encode(typePong, 1), 0)); !errors.Is(err, errFrame) {
		t.Errorf("a frame of another length than its header has: %v", err)
	}
	if f, err := decode(encode(frameType(77), 5, 1, 2)); err != nil || f.kind != 77 {
		t.Errorf("an unknown frame: %+v, %v", f, err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(encode(typeHello, 0, pair(1, 2), pair(0, 56)))
	f.Add(encode(typeDone, 9, pair(4, 3), pair(2, 0), 100, 200, 300))
	f.Add(encode(typeUsage, 1, pair(2, 0), 3, 4, 5, 6, 7))
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
			if took := left - r.Len(); took < headerSize || took > frameMax {
				t.Fatalf("a frame of %d bytes", took)
			}
			var d Done
			d.add(got.done)
			if d.Moved < 0 || d.Moved > maxBytes || d.Took < 0 || d.Resident < 0 {
				t.Fatalf("not capped: %+v", d)
			}
		}
	})
}
