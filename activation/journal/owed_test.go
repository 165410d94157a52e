package journal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// TestOwedIsKeptUntilCompleted: what an activation ended with is there for every
// later process until it is completed, beside its message, wherever files go.
func TestOwedIsKeptUntilCompleted(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), SegmentBytes: 4 << 10})
	for i := range 2 {
		j.Delivered(id(i), 0, int64(i))
		begin(j, id(i))
	}
	park(t, j, 1)
	for i := range 2 {
		if err := owe(j, id(i), []byte("not yet")); err != nil {
			t.Fatal(err)
		}
		if err := owe(j, id(i), fmt.Appendf(nil, "ended %d", i)); err != nil { // the last one counts
			t.Fatal(err)
		}
	}
	holds := func() {
		t.Helper()
		for i := range 2 {
			past := j.Past(id(i))
			got, err := j.Owed(id(i))
			if !past.Owed || past.State != Started || past.Parked != (i == 1) || err != nil || string(got) != fmt.Sprint("ended ", i) {
				t.Errorf("%d: %+v, %q, %v", i, past, got, err)
			}
		}
		if got, err := j.Message(id(1)); err != nil || string(got) != string(message(1)) {
			t.Errorf("message: %q, %v", got, err)
		}
	}
	holds()
	j = again(t, j)
	holds()
	for i := 10; i < 1000; i++ { // many files, of which the first must be written anew
		j.Delivered(id(i), 0, int64(i))
		j.Completed(id(i))
	}
	j.Covered(0, func(offset int64) bool { return offset >= 10 })
	for j.shorten() {
	}
	if h := j.Health(); h.Segments > 2*slackSegments+2 {
		t.Errorf("%d files", h.Segments)
	}
	holds()
	j = again(t, j)
	holds()
	for i := range 2 {
		j.Completed(id(i))
	}
	for range 2 {
		for i := range 2 {
			if _, err := j.Owed(id(i)); !errors.Is(err, ErrNotOwed) || j.Past(id(i)).Owed {
				t.Errorf("%d: something is owed after its completion: %v", i, err)
			}
		}
		j = again(t, j)
	}
	if err := owe(j, id(0), []byte("late")); !errors.Is(err, ErrNotOpen) {
		t.Errorf("owed after its completion: %v", err)
	}
	j.Covered(0, func(int64) bool { return true })
	if len(j.refs) != 0 || j.live != 0 || j.owed.Len() != 0 {
		t.Errorf("left: %d files are needed, %d bytes, %d owed", len(j.refs), j.live, j.owed.Len())
	}
}

// owe keeps one end.
func owe(j *Journal, id activation.ID, ending []byte) error {
	return j.Owe([]activation.ID{id}, [][]byte{ending})[0]
}

// TestOweTellsOfEach: one that is completed and one for which there is no space
// do not keep the others from being kept.
func TestOweTellsOfEach(t *testing.T) {
	j, err := Open(Config{Dir: t.TempDir(), Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for i := range 3 {
		j.Delivered(id(i), 0, int64(i))
		begin(j, id(i))
	}
	j.Completed(id(0))
	errs := j.Owe([]activation.ID{id(0), id(1), id(2)}, [][]byte{[]byte("done"), make([]byte, 2<<20), []byte("ended")})
	if !errors.Is(errs[0], ErrNotOpen) || !errors.Is(errs[1], ErrFull) || errs[2] != nil {
		t.Errorf("got %v", errs)
	}
	if got, err := j.Owed(id(2)); string(got) != "ended" || err != nil {
		t.Errorf("owed %q, %v", got, err)
	}
	if h := j.Health(); h.Owed != 1 {
		t.Errorf("%d are owed, want 1", h.Owed)
	}
}
