package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// TestWhicheverComesFirst: of the journal's copy of a message and Kafka's one is
// worked on, once.
func TestWhicheverComesFirst(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	for i := range 3 {
		j.Delivered(id(i), 0, int64(i))
		park(t, j, i)
	}
	begin(j, id(2))
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
	j.Delivered(id(0), 0, 0)
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
		j.Delivered(id(i), 0, int64(i))
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

// TestParkingOnAFullDisk: on a file system that is full a message is not parked,
// and whoever called keeps it; what was parked before is there, and when there is
// room again the next one is taken.
func TestParkingOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no file system of a bounded size: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 128<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	j := open(t, Config{Dir: filepath.Join(dir, "journal")})
	text := make([]byte, 10<<10)
	n, refused := 0, error(nil)
	for ; refused == nil; n++ {
		if n > 100 {
			t.Fatal("a full disk took everything")
		}
		j.Delivered(id(n), 0, int64(n))
		refused = parkOne(j, id(n), text)
	}
	if !errors.Is(refused, syscall.ENOSPC) {
		t.Fatalf("parked on a full disk: %v", refused)
	}
	last := n - 1
	if past := j.Past(id(last)); past.Taken {
		t.Errorf("what was refused: %+v", past)
	}
	for i := range last {
		if got, err := j.Message(id(i)); err != nil || len(got) != len(text) {
			t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := j.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := parkOne(j, id(last), text); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	j = again(t, j)
	if left := j.Left(); len(left) != n {
		t.Errorf("%d messages are left, want %d", len(left), n)
	}
}
