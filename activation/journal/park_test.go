package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// TestWhicheverComesFirst: of the journal's copy of a message and Kafka's one is
// worked on, once.
func TestWhicheverComesFirst(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	for i := range 3 {
		j.Accepted(id(i), 0, int64(i))
		park(t, j, i)
	}
	j.Started(id(2))
	j = again(t, j)
	if text, past, err := j.Take(id(0)); err != nil || string(text) != string(message(0)) || past.State != Accepted {
		t.Errorf("taken: %q, %+v, %v", text, past, err)
	}
	if got := j.Delivered(id(0), 0, 0); !got.Taken {
		t.Errorf("Kafka's copy of what was taken: %+v", got)
	}
	if _, _, err := j.Take(id(0)); !errors.Is(err, ErrNotParked) {
		t.Errorf("taken twice: %v", err)
	}
	if got := j.Delivered(id(1), 0, 1); got.Taken || !got.Parked {
		t.Errorf("Kafka's copy came first: %+v", got)
	}
	if _, _, err := j.Take(id(1)); !errors.Is(err, ErrNotParked) {
		t.Errorf("taken after Kafka's copy came: %v", err)
	}
	if _, past, err := j.Take(id(2)); err != nil || past.State != Started {
		t.Errorf("what had begun: %+v, %v", past, err)
	}
	j.Completed(id(2))
	if got := j.Delivered(id(2), 0, 2); got.State != Completed {
		t.Errorf("Kafka's copy of what ended: %+v", got)
	}
}

// TestUnreadableMessageLeavesKafkas: what the journal cannot read any more counts
// as not parked, so that Kafka's copy runs.
func TestUnreadableMessageLeavesKafkas(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Config{Dir: dir})
	j.Accepted(id(0), 0, 0)
	park(t, j, 0)
	j = again(t, j)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil && len(data) > 0 {
			data[len(data)-1] ^= 1
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := j.Take(id(0)); err == nil || errors.Is(err, ErrNotParked) {
		t.Fatalf("taken: %v", err)
	}
	if got := j.Delivered(id(0), 0, 0); got.Taken || got.Parked || got.State != Accepted {
		t.Errorf("Kafka's copy: %+v", got)
	}
}

// TestParkTellsOfEach: what cannot be parked is told beside what is.
func TestParkTellsOfEach(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), Bytes: 4000})
	for i := range 3 {
		j.Accepted(id(i), 0, int64(i))
	}
	j.Completed(id(1))
	ids := []activation.ID{id(0), id(1), id(9), id(2)}
	errs := j.Park(ids, [][]byte{message(0), message(1), message(9), make([]byte, 3000)})
	for i, want := range []error{nil, ErrNotOpen, ErrNotOpen, ErrFull} {
		if !errors.Is(errs[i], want) {
			t.Errorf("%d: %v, want %v", i, errs[i], want)
		}
	}
	if h := j.Health(); h.Parked != 1 || h.Bodies < int64(len(message(0))) {
		t.Errorf("health %+v", h)
	}
}
