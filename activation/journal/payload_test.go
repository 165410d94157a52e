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
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// TestWhicheverComesFirst: of the journal's copy of a message and Kafka's one is
// worked on, once.
func TestWhicheverComesFirst(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	for i := range 3 {
		j.Delivered(id(i), 0, int64(i))
		mustStore(t, j, i)
	}
	begin(j, id(2))
	j = again(t, j)
	text, past, err := j.LoadUnfinished(id(0))
	check.NoError(t, err, "taken: %q, %+v", text, past)
	check.Equal(t, string(text), string(messageOf(0)))
	check.Equal(t, past.State, Accepted)
	got := j.Delivered(id(0), 0, 0)
	check.That(t, got.JournalOwned, "Kafka's copy of a taken activation: %+v", got)
	_, _, err = j.LoadUnfinished(id(0))
	check.ErrorIs(t, err, ErrNoMessage, "taken twice")
	got = j.Delivered(id(1), 0, 1)
	check.That(t, !got.JournalOwned, "Kafka's copy came first: %+v", got)
	check.That(t, got.HasMessage, "Kafka's copy came first: %+v", got)
	_, _, err = j.LoadUnfinished(id(1))
	check.ErrorIs(t, err, ErrNoMessage, "taken after Kafka's copy came")
	_, past, err = j.LoadUnfinished(id(2))
	check.NoError(t, err, "activations that had begun")
	check.Equal(t, past.State, Started, "activations that had begun")
	j.Completed(id(2))
	check.Equal(t, j.Delivered(id(2), 0, 2).State, Completed, "Kafka's copy of an ended activation")
}

// TestUnreadableMessageLeavesKafkas: a message that the journal cannot read counts as not
// stored, so that Kafka's copy runs.
func TestUnreadableMessageLeavesKafkas(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Config{Dir: dir})
	j.Delivered(id(0), 0, 0)
	mustStore(t, j, 0)
	j = again(t, j)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	check.NoError(t, err)
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil && len(data) > 0 {
			data[len(data)-1] ^= 1
			check.NoError(t, os.WriteFile(name, data, 0o600))
		}
	}
	_, _, err = j.LoadUnfinished(id(0))
	check.That(check.Must(t), err != nil, "taken: %v", err)
	check.That(check.Must(t), !errors.Is(err, ErrNoMessage), "taken: %v", err)
	got := j.Delivered(id(0), 0, 0)
	check.That(t, !got.JournalOwned, "Kafka's copy: %+v", got)
	check.That(t, !got.HasMessage, "Kafka's copy: %+v", got)
	check.Equal(t, got.State, Accepted)
}

// TestUnreadableMessageLeavesKafkasThatCameMeanwhile: Kafka's copy is not dropped while the
// journal's copy is still being read.
func TestUnreadableMessageLeavesKafkasThatCameMeanwhile(t *testing.T) {
	const many = 500
	dir := t.TempDir()
	j := open(t, Config{Dir: dir})
	for n := range many {
		j.Delivered(id(n), 0, int64(n))
		mustStore(t, j, n)
	}
	j = again(t, j)
	files, err := filepath.Glob(filepath.Join(dir, "00000001-*"))
	check.NoError(t, err)
	check.Equal(check.Must(t), len(files), 1)
	check.NoError(t, os.Remove(files[0]))
	for n := range many {
		ended := make(chan error)
		go func() {
			_, _, err := j.LoadUnfinished(id(n))
			ended <- err
		}()
		got := j.Delivered(id(n), 0, int64(n))
		check.That(t, check.Receive(t, ended) != nil, "message %d is read", n)
		check.That(t, !got.JournalOwned, "Kafka's copy of %d: %+v", n, got)
		check.Equal(t, got.State, Accepted)
	}
}

// TestMessageIsStoredOnce: a message that is stored a second time is safe when the first
// copy is, and not before.
func TestMessageIsStoredOnce(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	j.Delivered(id(0), 0, 0)
	first, err := j.appendMessage(keyOf(id(0)), messageOf(0))
	check.NoError(t, err)
	second, err := j.appendMessage(keyOf(id(0)), messageOf(0))
	check.NoError(t, err)
	if second == (wal.PendingWrite{}) {
		t.Error("stored again, there is nothing to wait for")
	}
	if err := errors.Join(second.Wait(), first.Wait()); err != nil {
		t.Error(err)
	}
}

// TestFullDiskRefusesMessages: on a file system that is full a message is refused and stays
// the caller's. Earlier messages are there, and when there is space again the next one is
// taken.
func TestFullDiskRefusesMessages(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no file system of a bounded size: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	ballast := filepath.Join(dir, "ballast")
	check.NoError(t, os.WriteFile(ballast, make([]byte, 128<<10), 0o600))
	j := open(t, Config{Dir: filepath.Join(dir, "journal")})
	text := make([]byte, 10<<10)
	n, refused := 0, error(nil)
	for ; refused == nil; n++ {
		check.AtMost(check.Must(t), n, 100, "a full disk took everything")
		j.Delivered(id(n), 0, int64(n))
		refused = store(j, id(n), text)
	}
	check.ErrorIs(check.Must(t), refused, syscall.ENOSPC, "stored on a full disk")
	last := n - 1
	past := j.History(id(last))
	check.That(t, !past.JournalOwned, "the refused activation: %+v", past)
	for i := range last {
		got, err := j.Message(id(i))
		check.NoError(t, err, "message %d", i)
		check.Equal(check.Must(t), len(got), len(text), "message %d", i)
	}
	check.NoError(t, os.Remove(ballast))
	check.NoError(t, j.Ready(t.Context()))
	check.NoError(t, store(j, id(last), text), "with space again")
	j = again(t, j)
	check.Equal(t, len(j.Unfinished()), n, "messages are left")
}

// TestResultIsKeptUntilCompleted: a result is there for every
// later process until it is completed, beside its message, wherever files go.
func TestResultIsKeptUntilCompleted(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), SegmentBytes: 4 << 10})
	for i := range 2 {
		j.Delivered(id(i), 0, int64(i))
		begin(j, id(i))
	}
	mustStore(t, j, 1)
	for i := range 2 {
		check.NoError(t, keepResult(j, id(i), []byte("not yet")))
		if err := keepResult(j, id(i), fmt.Appendf(nil, "ended %d", i)); err != nil { // the last one counts
			t.Fatal(err)
		}
	}
	checkResults := func() {
		t.Helper()
		for i := range 2 {
			past := j.History(id(i))
			got, err := j.Result(id(i))
			check.That(check.Must(t), past.Unacknowledged, "%d: %+v, %q, %v", i, past, got, err)
			check.Equal(t, past.State, Started, "%d", i)
			check.That(t, past.HasMessage == (i == 1), "%d: %+v, %q, %v", i, past, got, err)
			check.NoError(t, err, "%d: %+v, %q", i, past, got)
			check.Equal(t, string(got), fmt.Sprint("ended ", i), "%d", i)
		}
		got, err := j.Message(id(1))
		check.NoError(t, err, "message: %q", got)
		check.Equal(t, string(got), string(messageOf(1)))
	}
	checkResults()
	j = again(t, j)
	checkResults()
	for i := 10; i < 1000; i++ { // many files, of which the first must be written anew
		j.Delivered(id(i), 0, int64(i))
		j.Completed(id(i))
	}
	j.ForgetBelow(0, func(offset int64) bool { return offset >= 10 })
	compactNow(j)
	check.AtMost(t, j.Health().Segments, 2*slackSegments+2)
	checkResults()
	j = again(t, j)
	checkResults()
	for i := range 2 {
		j.Completed(id(i))
	}
	for range 2 {
		for i := range 2 {
			_, err := j.Result(id(i))
			check.ErrorIs(t, err, errNoResult, "%d: a result after its completion", i)
			check.That(t, !j.History(id(i)).Unacknowledged, "%d: a result after its completion: %v", i, err)
		}
		j = again(t, j)
	}
	check.ErrorIs(t, keepResult(j, id(0), []byte("late")), errNotOpen, "kept after its completion")
	j.ForgetBelow(0, func(int64) bool { return true })
	check.Equal(t, len(j.refs), 0)
	check.Equal(t, j.live, 0)
	check.Equal(t, j.counts[result], 0)
}

// keepResult keeps one result.
func keepResult(j *Journal, id activation.ID, result []byte) error {
	return j.KeepUnacknowledged([]activation.ID{id}, [][]byte{result})[0]
}

// TestKeepUnacknowledgedReportsEach: the results of a completed activation, and a result for
// which there is no space, are refused. The other results are stored.
func TestKeepUnacknowledgedReportsEach(t *testing.T) {
	j, err := Open(Config{Dir: t.TempDir(), Bytes: 1 << 20})
	check.NoError(t, err)
	defer j.Close()
	for i := range 3 {
		j.Delivered(id(i), 0, int64(i))
		begin(j, id(i))
	}
	j.Completed(id(0))
	errs := j.KeepUnacknowledged([]activation.ID{id(0), id(1), id(2)}, [][]byte{[]byte("done"), make([]byte, 2<<20), []byte("ended")})
	check.ErrorIs(t, errs[0], errNotOpen)
	check.ErrorIs(t, errs[1], errFull)
	check.NoError(t, errs[2])
	got, err := j.Result(id(2))
	check.Equal(t, string(got), "ended")
	check.NoError(t, err, "result %q", got)
	check.Equal(t, j.Health().Unacknowledged, 1)
}

// The only copy of a message is there for the next process, once, and goes with its end.
func TestKeptMessageIsTheNextProcesses(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	for i := range 2 {
		j.Delivered(id(i), 7, int64(i))
		check.NoError(t, j.AppendMessage(id(i), messageOf(i)))
	}
	check.ErrorIs(t, j.AppendMessage(id(9), messageOf(9)), errNotOpen, "kept an activation that was not accepted")
	j.Completed(id(0))
	p := j.History(id(1))
	check.That(t, p.JournalOwned, "past %+v: another copy would count", p)
	j = again(t, j)
	left := j.Unfinished()
	check.Equal(check.Must(t), len(left), 1)
	check.Equal(check.Must(t), left[0].ID, id(1))
	check.Equal(check.Must(t), left[0].Partition, 7)
	text, _, err := j.LoadUnfinished(id(1))
	check.NoError(t, err, "message %q", text)
	check.Equal(t, string(text), string(messageOf(1)))
}

// Messages without another copy are stored although the journal is half full. Space returns
// when the journal is less than half full.
func TestSpace(t *testing.T) {
	j, err := Open(Config{Dir: t.TempDir(), Bytes: 1 << 20, SegmentBytes: 1 << 16})
	check.NoError(t, err)
	defer j.Close()
	one, two := activation.ID(strings.Repeat("1", 32)), activation.ID(strings.Repeat("2", 32))
	text := bytes.Repeat([]byte("x"), 1<<18)
	for _, id := range []activation.ID{one, two} {
		err := j.Space(t.Context())
		check.NoError(t, err, "full before %s", id)
		check.That(check.Must(t), !j.Full(), "full before %s: %v", id, err)
		j.Delivered(id, 0, 1)
		check.NoError(t, j.AppendMessage(id, text))
	}
	check.That(check.Must(t), j.Full(), "not full")
	late := activation.ID(strings.Repeat("3", 32))
	j.Delivered(late, 0, 2)
	if err := j.AppendMessage(late, text); err != nil { // a fetch had been out
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.That(t, j.Space(ctx) != nil, "space in a full journal")
	space := make(chan error)
	go func() { space <- j.Space(t.Context()) }()
	j.Completed(one)
	j.Completed(two)
	check.NoError(t, check.Receive(t, space))
}

// A process ends while an activation is given to another invoker. For the next process it
// counts as started while the other invoker may have it, and is unknown when it has.
func TestOfferedAcrossProcesses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name  string
		do    func(*Journal, activation.ID) error
		state State // of the next process; Unknown: it has none
	}{
		{"kept", func(*Journal, activation.ID) error { return nil }, Accepted},
		{"offered", (*Journal).BeginHandback, Started},
		{"withdrawn", func(j *Journal, id activation.ID) error {
			err := j.BeginHandback(id)
			j.AbortHandback(id)
			return err
		}, Accepted},
		{"forgotten", func(j *Journal, id activation.ID) error {
			return errors.Join(j.BeginHandback(id), j.CommitHandback(id))
		}, Unknown},
		{"forgotten, and come again", func(j *Journal, id activation.ID) error {
			err := errors.Join(j.BeginHandback(id), j.CommitHandback(id))
			j.Delivered(id, 0, 9)
			return errors.Join(err, j.AppendMessage(id, []byte("again")))
		}, Accepted},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := open(t, Config{Dir: dir})
			j.Delivered(id(1), 0, 1)
			check.NoError(t, j.AppendMessage(id(1), []byte("text")))
			check.NoError(t, c.do(j, id(1)))
			check.NoError(t, j.Close())
			j = open(t, Config{Dir: dir})
			left := j.Unfinished()
			if c.state == Unknown {
				check.Equal(t, len(left), 0, "left %+v", left)
			} else {
				check.Equal(check.Must(t), len(left), 1, "left %+v", left)
				check.Equal(t, left[0].History.State, c.state)
			}
			check.NoError(t, j.CommitHandback(id(1)))
			check.Equal(t, len(j.refs), 0)
			check.Equal(t, j.live, 0)
			check.NoError(t, j.Close())
		})
	}
}

func TestOfferWhatHasStarted(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	j.Delivered(id(1), 0, 1)
	begin(j, id(1))
	check.ErrorIs(t, j.BeginHandback(id(1)), errNotOpen)
}
