package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// TestCutAndFlippedAnywhere: however the file is damaged, the journal opens and knows the
// entries that are whole.
func TestCutAndFlippedAnywhere(t *testing.T) {
	dir := t.TempDir()
	result := []byte(`{"response":{}}`)
	j := open(t, Config{Dir: dir, Sync: wal.SyncNone})
	for i := range 6 {
		j.Delivered(id(i), 0, int64(i))
		mustStore(t, j, i)
	}
	begin(j, id(1))
	check.NoError(t, keepResult(j, id(1), result))
	j.Completed(id(2))
	check.NoError(t, j.Close())
	files, _ := filepath.Glob(filepath.Join(dir, "*.v1"))
	whole, err := os.ReadFile(files[0])
	check.NoError(t, err)
	for at := range whole {
		for _, data := range [][]byte{whole[:at], flipped(whole, at)} {
			hurt := t.TempDir()
			check.NoError(t, os.WriteFile(filepath.Join(hurt, filepath.Base(files[0])), data, 0o600))
			j, err := Open(Config{Dir: hurt, Sync: wal.SyncNone})
			check.NoError(t, err, "at %d", at)
			lost := 0
			for i := range 6 {
				p := j.History(id(i))
				if p.HasMessage {
					got, err := j.Message(id(i))
					check.NoError(t, err, "at %d: message %d: %q", at, i, got)
					check.Equal(check.Must(t), string(got), string(messageOf(i)), "at %d: message %d", at, i)
				} else if i != 2 {
					lost++
				}
			}
			if j.History(id(1)).Unacknowledged {
				got, err := j.Result(id(1))
				check.NoError(t, err, "at %d: result %q", at, got)
				check.Equal(check.Must(t), string(got), string(result), "at %d: result", at)
			}
			if len(data) == len(whole) && lost > 1 {
				t.Fatalf("at %d: %d messages lost for one byte", at, lost)
			}
			check.NoError(t, j.Close())
		}
	}
}

func flipped(data []byte, at int) []byte {
	bad := slices.Clone(data)
	bad[at] ^= 0xff
	return bad
}

// TestSurvivesAKill has another process keep a journal, kills it, and looks for
// all that it had been answered for.
func TestSurvivesAKill(t *testing.T) {
	if dir := os.Getenv("GPUWHISK_JOURNAL_VICTIM"); dir != "" {
		victim(dir)
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSurvivesAKill$")
	cmd.Env = append(os.Environ(), "GPUWHISK_JOURNAL_VICTIM="+dir)
	out, err := cmd.StdoutPipe()
	check.NoError(t, err)
	check.NoError(t, cmd.Start())
	reported := 0
	for lines := bufio.NewScanner(out); reported < 2000 && lines.Scan(); reported++ {
		check.Equal(check.Must(t), lines.Text(), fmt.Sprint(reported), "victim printed")
	}
	check.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	check.AtLeast(check.Must(t), reported, 2000, "the victim ended by itself")
	j := open(t, Config{Dir: dir})
	for i := range reported {
		check.Equal(check.Must(t), j.History(id(i)), History{State: Started, Crashes: 1, HasMessage: true}, "activation %d", i)
		got, err := j.Message(id(i))
		check.NoError(t, err, "message %d: %q", i, got)
		check.Equal(check.Must(t), string(got), string(messageOf(i)), "message %d", i)
	}
}

func victim(dir string) {
	j, err := Open(Config{Dir: dir, SegmentBytes: 200_000})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		j.Delivered(id(i), 0, int64(i))
		if err := store(j, id(i), messageOf(i)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		begin(j, id(i))
		fmt.Println(i)
	}
}

// TestDiskThatRefusesDelaysNoRun: runs go on, messages are refused, and Health
// reports the trouble.
func TestDiskThatRefusesDelaysNoRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := open(t, Config{Dir: dir, SegmentBytes: 1})
	j.Delivered(id(0), 0, 0)
	begin(j, id(0))
	check.NoError(t, os.Rename(dir, dir+"x"))
	j.Delivered(id(1), 0, 1)
	begin(j, id(1))
	j.Completed(id(0))
	check.That(t, store(j, id(1), messageOf(1)) != nil, "stored on a disk that is not there")
	h := j.Health()
	check.That(t, !h.OK(), "health %+v", h)
	check.That(t, !h.Since.IsZero(), "health %+v", h)
	check.NoError(t, os.Rename(dir+"x", dir))
	check.NoError(t, j.Ready(t.Context()))
	j = again(t, j)
	a, b := j.History(id(0)), j.History(id(1))
	check.Equal(t, a.State, Completed)
	check.Equal(t, b.State, Started)
}

// TestOnlyCopyWaitsForTheDisk: an activation whose message only the journal has does not
// begin before its start is written; another one does.
func TestOnlyCopyWaitsForTheDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := open(t, Config{Dir: dir, SegmentBytes: 1})
	for i := range 2 {
		j.Delivered(id(i), 0, int64(i))
	}
	check.NoError(t, store(j, id(0), messageOf(0)))
	check.NoError(t, os.Rename(dir, dir+"x"))
	written, err := j.Begin(t.Context(), id(1), 0)
	check.NoError(t, err, "Kafka has the message")
	check.That(t, !written, "the start is on a disk that is not there")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = j.Begin(ended, id(0), 0)
	check.ErrorIs(t, err, context.Canceled, "only the journal has the message, on a disk that is not there")
	check.Equal(t, j.History(id(0)).State, Accepted, "it did not begin")
	check.NoError(t, os.Rename(dir+"x", dir))
	written, err = j.Begin(t.Context(), id(0), 0)
	check.NoError(t, err)
	check.That(t, written, "the disk is back")
	check.Equal(t, again(t, j).History(id(0)).State, Started)
}

// away takes a journal's directory away; the function that it returns brings it back.
func away(t *testing.T, j *Journal) (back func()) {
	t.Helper()
	dir := j.cfg.Dir
	check.NoError(t, os.Rename(dir, dir+"x"))
	return func() {
		t.Helper()
		check.NoError(t, os.Rename(dir+"x", dir))
		check.NoError(t, j.Ready(t.Context()))
	}
}

// TestDiskThatWasAwayResurrectsNothing: a file that cannot be deleted while the disk is away
// is deleted later, and before newer files. Otherwise the next process would run completed
// activations.
func TestDiskThatWasAwayResurrectsNothing(t *testing.T) {
	j := open(t, Config{Dir: filepath.Join(t.TempDir(), "journal"), SegmentBytes: 1})
	j.Delivered(id(0), 0, 0)
	mustStore(t, j, 0)
	back := away(t, j)
	j.Completed(id(0))
	j.Delivered(id(1), 0, 1)
	begin(j, id(1)) // returns when the disk has refused
	compactNow(j)
	back()
	j.ForgetBelow(0, func(offset int64) bool { return offset == 0 })
	j.Delivered(id(2), 0, 2)
	begin(j, id(2))
	compactNow(j)
	check.Equal(t, again(t, j).History(id(0)), History{}, "completed and covered activations")
}

// TestFileThatCannotBeDeletedIsKeptInOrder: no younger file goes before it.
func TestFileThatCannotBeDeletedIsKeptInOrder(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), SegmentBytes: 1})
	for i := range 3 {
		j.Delivered(id(i), 0, int64(i))
		mustStore(t, j, i)
	}
	oldest, err := filepath.Glob(filepath.Join(j.cfg.Dir, "00000001-*"))
	check.NoError(t, err)
	check.Equal(check.Must(t), len(oldest), 1, "%q", oldest)
	check.NoError(t, errors.Join(os.Remove(oldest[0]), os.MkdirAll(filepath.Join(oldest[0], "x"), 0o700)))
	for i := range 3 {
		j.Completed(id(i))
	}
	j.ForgetBelow(0, func(int64) bool { return true })
	before := j.log.Segments()
	compactNow(j)
	check.Equal(t, j.log.Segments(), before)
	check.NoError(t, os.RemoveAll(oldest[0]))
	check.NoError(t, os.WriteFile(oldest[0], nil, 0o600))
	compactNow(j)
	check.Equal(t, j.log.Segments(), 1)
}

// TestDiskThatIsAwayDamagesNoMessage: a message that cannot be read for a while is
// there when the disk is back, whether it was to be taken or to be rewritten.
func TestDiskThatIsAwayDamagesNoMessage(t *testing.T) {
	j := open(t, Config{Dir: filepath.Join(t.TempDir(), "journal")})
	j.Delivered(id(0), 0, 0)
	mustStore(t, j, 0)
	j = again(t, j)
	back := away(t, j)
	_, _, err := j.LoadUnfinished(id(0))
	check.That(t, err != nil, "taken while the disk is away")
	check.That(t, !errors.Is(err, wal.ErrDamaged), "%v", err)
	if j.rewrite(j.log.Oldest()) {
		t.Error("rewritten while the disk is away")
	}
	back()
	text, _, err := j.LoadUnfinished(id(0))
	check.NoError(t, err, "taken when it is back")
	check.Equal(t, string(text), string(messageOf(0)))
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(nil, keyOf(id(7)), &entry{state: Started, partition: 3, offset: 1 << 40, starts: 2}, 0))
	f.Add(append(encode(nil, keyOf(id(7)), &entry{state: Started, offset: 5}, resultBit), `{"ended":1}`...))
	f.Add(append(encode(nil, keyOf(id(7)), &entry{state: Accepted, offset: -1}, messageBit), "message"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, e, kind, payload, ok := decode(data)
		if !ok {
			return
		}
		follows := byte(0)
		switch {
		case kind == result:
			follows = resultBit
		case payload != nil:
			follows = messageBit
		}
		back := append(encode(nil, k, &e, follows), payload...)
		k2, e2, kind2, payload2, ok := decode(back)
		check.That(check.Must(t), ok, "%x: %+v became %+v", data, e, e2)
		check.Equal(check.Must(t), k2, k, "%x", data)
		check.Equal(check.Must(t), e2, e, "%x", data)
		check.Equal(check.Must(t), kind2, kind, "%x", data)
		check.Equal(check.Must(t), string(payload2), string(payload), "%x", data)
	})
}

// A former process's word on an activation counts wherever it is delivered, and
// once: a second message with its id is another one.
func TestDeliveredOnce(t *testing.T) {
	dir := t.TempDir()
	id, other := activation.ID(strings.Repeat("a", 32)), activation.ID(strings.Repeat("b", 32))
	j, err := Open(Config{Dir: dir})
	check.NoError(t, err)
	for _, a := range []activation.ID{id, other} {
		j.Delivered(a, 0, 7)
		begin(j, a)
	}
	j.Completed(id)
	check.Equal(t, j.Delivered(id, 0, 8), History{DuplicateID: true}, "another message with the id")
	check.Equal(t, j.Delivered(id, 0, 7).State, Completed, "the same message")
	check.NoError(t, j.Close())
	j, err = Open(Config{Dir: dir})
	check.NoError(t, err)
	defer j.Close()
	if got := j.Delivered(id, 0, 9); got.State != Completed { // the log was made anew
		t.Errorf("delivered again: %+v, want completed", got)
	}
	check.Equal(t, j.Delivered(id, 0, 10), History{DuplicateID: true}, "another message with the id")
	check.Equal(t, j.Delivered(other, 0, 7).State, Started, "delivered again")
}
