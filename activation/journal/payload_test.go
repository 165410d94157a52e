package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// TestWhicheverComesFirst: of the journal's copy of a message and Kafka's one is
// worked on, once.
func TestWhicheverComesFirst(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	for i := range 3 {
		j.Delivered(id(i), 0, int64(i))
		spill(t, j, i)
	}
	begin(j, id(2))
	j = again(t, j)
	if text, past, err := j.Take(id(0)); err != nil || string(text) != string(messageOf(0)) || past.State != Accepted {
		t.Errorf("taken: %q, %+v, %v", text, past, err)
	}
	if got := j.Delivered(id(0), 0, 0); !got.Taken {
		t.Errorf("Kafka's copy of what was taken: %+v", got)
	}
	if _, _, err := j.Take(id(0)); !errors.Is(err, ErrNotSpilled) {
		t.Errorf("taken twice: %v", err)
	}
	if got := j.Delivered(id(1), 0, 1); got.Taken || !got.Spilled {
		t.Errorf("Kafka's copy came first: %+v", got)
	}
	if _, _, err := j.Take(id(1)); !errors.Is(err, ErrNotSpilled) {
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
// as not spilled, so that Kafka's copy runs.
func TestUnreadableMessageLeavesKafkas(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Config{Dir: dir})
	j.Delivered(id(0), 0, 0)
	spill(t, j, 0)
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
	if _, _, err := j.Take(id(0)); err == nil || errors.Is(err, ErrNotSpilled) {
		t.Fatalf("taken: %v", err)
	}
	if got := j.Delivered(id(0), 0, 0); got.Taken || got.Spilled || got.State != Accepted {
		t.Errorf("Kafka's copy: %+v", got)
	}
}

// TestSpillReportsEach: an error for each message that cannot be spilled.
func TestSpillReportsEach(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), Bytes: 4000})
	for i := range 3 {
		j.Delivered(id(i), 0, int64(i))
	}
	j.Completed(id(1))
	ids := []activation.ID{id(0), id(1), id(9), id(2)}
	errs := j.Spill(ids, [][]byte{messageOf(0), messageOf(1), messageOf(9), make([]byte, 3000)})
	for i, want := range []error{nil, ErrNotOpen, ErrNotOpen, ErrFull} {
		if !errors.Is(errs[i], want) {
			t.Errorf("%d: %v, want %v", i, errs[i], want)
		}
	}
	if h := j.Health(); h.Spilled != 1 || h.SpilledBytes < int64(len(messageOf(0))) {
		t.Errorf("health %+v", h)
	}
}

// TestSpilledAgainIsWritten: a message that is to be spilled a second time is safe when
// the first time is, and not before.
func TestSpilledAgainIsWritten(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	j.Delivered(id(0), 0, 0)
	first, err := j.spill(keyOf(id(0)), messageOf(0), slackFactor)
	if err != nil {
		t.Fatal(err)
	}
	second, err := j.spill(keyOf(id(0)), messageOf(0), slackFactor)
	if err != nil {
		t.Fatal(err)
	}
	if second == (wal.Receipt{}) {
		t.Error("spilled again, there is nothing to wait for")
	}
	if err := errors.Join(second.Wait(), first.Wait()); err != nil {
		t.Error(err)
	}
}

// TestSpillOnAFullDisk: on a file system that is full a message is not spilled,
// and stays the caller's; what was spilled before is there, and when there is
// space again the next one is taken.
func TestSpillOnAFullDisk(t *testing.T) {
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
		refused = spillOne(j, id(n), text)
	}
	if !errors.Is(refused, syscall.ENOSPC) {
		t.Fatalf("spilled to a full disk: %v", refused)
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
	if err := spillOne(j, id(last), text); err != nil {
		t.Fatalf("with space again: %v", err)
	}
	j = again(t, j)
	if left := j.Unfinished(); len(left) != n {
		t.Errorf("%d messages are left, want %d", len(left), n)
	}
}

// TestResultIsKeptUntilCompleted: a result is there for every
// later process until it is completed, beside its message, wherever files go.
func TestResultIsKeptUntilCompleted(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), SegmentBytes: 4 << 10})
	for i := range 2 {
		j.Delivered(id(i), 0, int64(i))
		begin(j, id(i))
	}
	spill(t, j, 1)
	for i := range 2 {
		if err := keepResult(j, id(i), []byte("not yet")); err != nil {
			t.Fatal(err)
		}
		if err := keepResult(j, id(i), fmt.Appendf(nil, "ended %d", i)); err != nil { // the last one counts
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		for i := range 2 {
			past := j.Past(id(i))
			got, err := j.Result(id(i))
			if !past.Unacknowledged || past.State != Started || past.Spilled != (i == 1) || err != nil || string(got) != fmt.Sprint("ended ", i) {
				t.Errorf("%d: %+v, %q, %v", i, past, got, err)
			}
		}
		if got, err := j.Message(id(1)); err != nil || string(got) != string(messageOf(1)) {
			t.Errorf("message: %q, %v", got, err)
		}
	}
	check()
	j = again(t, j)
	check()
	for i := 10; i < 1000; i++ { // many files, of which the first must be written anew
		j.Delivered(id(i), 0, int64(i))
		j.Completed(id(i))
	}
	j.Covered(0, func(offset int64) bool { return offset >= 10 })
	compactNow(j)
	if h := j.Health(); h.Segments > 2*slackSegments+2 {
		t.Errorf("%d files", h.Segments)
	}
	check()
	j = again(t, j)
	check()
	for i := range 2 {
		j.Completed(id(i))
	}
	for range 2 {
		for i := range 2 {
			if _, err := j.Result(id(i)); !errors.Is(err, ErrNoResult) || j.Past(id(i)).Unacknowledged {
				t.Errorf("%d: a result after its completion: %v", i, err)
			}
		}
		j = again(t, j)
	}
	if err := keepResult(j, id(0), []byte("late")); !errors.Is(err, ErrNotOpen) {
		t.Errorf("kept after its completion: %v", err)
	}
	j.Covered(0, func(int64) bool { return true })
	if len(j.refs) != 0 || j.live != 0 || j.counts[result] != 0 {
		t.Errorf("left: %d files are needed, %d bytes, %d results", len(j.refs), j.live, j.counts[result])
	}
}

// keepResult keeps one result.
func keepResult(j *Journal, id activation.ID, result []byte) error {
	return j.KeepUnacknowledged([]activation.ID{id}, [][]byte{result})[0]
}

// TestKeepUnacknowledgedReportsEach: one that is completed and one for which there is no space
// do not keep the others from being kept.
func TestKeepUnacknowledgedReportsEach(t *testing.T) {
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
	errs := j.KeepUnacknowledged([]activation.ID{id(0), id(1), id(2)}, [][]byte{[]byte("done"), make([]byte, 2<<20), []byte("ended")})
	if !errors.Is(errs[0], ErrNotOpen) || !errors.Is(errs[1], ErrFull) || errs[2] != nil {
		t.Errorf("got %v", errs)
	}
	if got, err := j.Result(id(2)); string(got) != "ended" || err != nil {
		t.Errorf("result %q, %v", got, err)
	}
	if h := j.Health(); h.Unacknowledged != 1 {
		t.Errorf("%d are unacknowledged, want 1", h.Unacknowledged)
	}
}

// What has no other copy is there for the next process, once, and goes with its end.
func TestKeptMessageIsTheNextProcesses(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	for i := range 2 {
		j.Delivered(id(i), 7, int64(i))
		if err := j.Keep(id(i), messageOf(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Keep(id(9), messageOf(9)); !errors.Is(err, ErrNotOpen) {
		t.Errorf("kept what was not accepted: %v", err)
	}
	j.Completed(id(0))
	if p := j.Past(id(1)); !p.Taken {
		t.Errorf("past %+v: another copy would count", p)
	}
	j = again(t, j)
	left := j.Unfinished()
	if len(left) != 1 || left[0].ID != id(1) || left[0].Partition != 7 {
		t.Fatalf("left %+v", left)
	}
	text, _, err := j.Take(id(1))
	if err != nil || string(text) != string(messageOf(1)) {
		t.Errorf("message %q, %v", text, err)
	}
}

// What has no other copy is kept beyond the half at which the journal is full, and
// Space returns when it is not any more.
func TestSpace(t *testing.T) {
	j, err := Open(Config{Dir: t.TempDir(), Bytes: 1 << 20, SegmentBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	one, two := activation.ID(strings.Repeat("1", 32)), activation.ID(strings.Repeat("2", 32))
	text := bytes.Repeat([]byte("x"), 1<<18)
	for _, id := range []activation.ID{one, two} {
		if err := j.Space(t.Context()); err != nil || j.Full() {
			t.Fatalf("full before %s: %v", id, err)
		}
		j.Delivered(id, 0, 1)
		if err := j.Keep(id, text); err != nil {
			t.Fatal(err)
		}
	}
	if !j.Full() {
		t.Fatal("not full")
	}
	late := activation.ID(strings.Repeat("3", 32))
	j.Delivered(late, 0, 2)
	if err := j.Keep(late, text); err != nil { // a fetch had been out
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Space(ctx); err == nil {
		t.Error("space in a full journal")
	}
	space := make(chan error)
	go func() { space <- j.Space(t.Context()) }()
	j.Completed(one)
	j.Completed(two)
	if err := <-space; err != nil {
		t.Error(err)
	}
}

// A process that ends while an activation is given to another leaves one that counts as
// started while that may have it, and none when it has.
func TestOfferedAcrossProcesses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name  string
		do    func(*Journal, activation.ID) error
		state State // of the next process; Unknown: it has none
	}{
		{"kept", func(*Journal, activation.ID) error { return nil }, Accepted},
		{"offered", (*Journal).Offer, Started},
		{"withdrawn", func(j *Journal, id activation.ID) error {
			err := j.Offer(id)
			j.Withdraw(id)
			return err
		}, Accepted},
		{"forgotten", func(j *Journal, id activation.ID) error {
			return errors.Join(j.Offer(id), j.Forget(id))
		}, Unknown},
		{"forgotten, and come again", func(j *Journal, id activation.ID) error {
			err := errors.Join(j.Offer(id), j.Forget(id))
			j.Delivered(id, 0, 9)
			return errors.Join(err, j.Keep(id, []byte("again")))
		}, Accepted},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := open(t, Config{Dir: dir})
			j.Delivered(id(1), 0, 1)
			if err := j.Keep(id(1), []byte("text")); err != nil {
				t.Fatal(err)
			}
			if err := c.do(j, id(1)); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = open(t, Config{Dir: dir})
			left := j.Unfinished()
			if c.state == Unknown && len(left) != 0 || c.state != Unknown && (len(left) != 1 || left[0].Past.State != c.state) {
				t.Errorf("left %+v, want it %s", left, c.state)
			}
			if err := j.Forget(id(1)); err != nil {
				t.Fatal(err)
			}
			if len(j.refs) != 0 || j.live != 0 {
				t.Errorf("%d files are needed, %d bytes", len(j.refs), j.live)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestOfferWhatHasStarted(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	j.Delivered(id(1), 0, 1)
	begin(j, id(1))
	if err := j.Offer(id(1)); !errors.Is(err, ErrNotOpen) {
		t.Errorf("offered: %v", err)
	}
}
