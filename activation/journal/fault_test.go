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
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// TestCutAndFlippedAnywhere: however the file is damaged, the journal opens,
// and what is whole in it is known.
func TestCutAndFlippedAnywhere(t *testing.T) {
	dir := t.TempDir()
	result := []byte(`{"response":{}}`)
	j := open(t, Config{Dir: dir, Sync: wal.None})
	for i := range 6 {
		j.Delivered(id(i), 0, int64(i))
		spill(t, j, i)
	}
	begin(j, id(1))
	if err := keepResult(j, id(1), result); err != nil {
		t.Fatal(err)
	}
	j.Completed(id(2))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.v1"))
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		for _, data := range [][]byte{whole[:at], flipped(whole, at)} {
			hurt := t.TempDir()
			if err := os.WriteFile(filepath.Join(hurt, filepath.Base(files[0])), data, 0o600); err != nil {
				t.Fatal(err)
			}
			j, err := Open(Config{Dir: hurt, Sync: wal.None})
			if err != nil {
				t.Fatalf("at %d: %v", at, err)
			}
			lost := 0
			for i := range 6 {
				p := j.Past(id(i))
				if p.Spilled {
					if got, err := j.Message(id(i)); err != nil || string(got) != string(messageOf(i)) {
						t.Fatalf("at %d: message %d: %q, %v", at, i, got, err)
					}
				} else if i != 2 {
					lost++
				}
			}
			if j.Past(id(1)).Unacknowledged {
				if got, err := j.Result(id(1)); err != nil || string(got) != string(result) {
					t.Fatalf("at %d: result %q, %v", at, got, err)
				}
			}
			if len(data) == len(whole) && lost > 1 {
				t.Fatalf("at %d: %d messages lost for one byte", at, lost)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
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
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reported := 0
	for lines := bufio.NewScanner(out); reported < 2000 && lines.Scan(); reported++ {
		if lines.Text() != fmt.Sprint(reported) {
			t.Fatalf("victim printed %q", lines.Text())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if reported < 2000 {
		t.Fatalf("the victim ended by itself after %d", reported)
	}
	j := open(t, Config{Dir: dir})
	for i := range reported {
		if got := j.Past(id(i)); got != (Past{State: Started, Crashes: 1, Spilled: true}) {
			t.Fatalf("activation %d: %+v", i, got)
		}
		if got, err := j.Message(id(i)); err != nil || string(got) != string(messageOf(i)) {
			t.Fatalf("message %d: %q, %v", i, got, err)
		}
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
		if err := spillOne(j, id(i), messageOf(i)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		begin(j, id(i))
		fmt.Println(i)
	}
}

// TestDiskThatRefusesDelaysNoRun: runs go on, spilling is refused, and Health
// reports the trouble.
func TestDiskThatRefusesDelaysNoRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := open(t, Config{Dir: dir, SegmentBytes: 1})
	j.Delivered(id(0), 0, 0)
	begin(j, id(0))
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	j.Delivered(id(1), 0, 1)
	begin(j, id(1))
	j.Completed(id(0))
	if err := spillOne(j, id(1), messageOf(1)); err == nil {
		t.Error("spilled to a disk that is not there")
	}
	if h := j.Health(); h.OK() || h.Since.IsZero() {
		t.Errorf("health %+v", h)
	}
	if err := os.Rename(dir+"x", dir); err != nil {
		t.Fatal(err)
	}
	if err := j.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	j = again(t, j)
	if a, b := j.Past(id(0)), j.Past(id(1)); a.State != Completed || b.State != Started {
		t.Errorf("past %+v, %+v", a, b)
	}
}

// TestSpilledWaitsForTheDisk: Kafka no longer delivers a spilled activation, so it
// does not begin before that is written; another one does.
func TestSpilledWaitsForTheDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := open(t, Config{Dir: dir, SegmentBytes: 1})
	for i := range 2 {
		j.Delivered(id(i), 0, int64(i))
	}
	if err := spillOne(j, id(0), messageOf(0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	if err := j.Begin(t.Context(), id(1)); err != nil {
		t.Errorf("not spilled: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Begin(ended, id(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("spilled, on a disk that is not there: %v", err)
	}
	if p := j.Past(id(0)); p.State != Accepted {
		t.Errorf("it did not begin: %+v", p)
	}
	if err := os.Rename(dir+"x", dir); err != nil {
		t.Fatal(err)
	}
	if err := j.Begin(t.Context(), id(0)); err != nil {
		t.Error(err)
	}
	if p := again(t, j).Past(id(0)); p.State != Started {
		t.Errorf("past %+v", p)
	}
}

// away takes a journal's directory away; the function that it returns brings it back.
func away(t *testing.T, j *Journal) (back func()) {
	t.Helper()
	dir := j.cfg.Dir
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Rename(dir+"x", dir); err != nil {
			t.Fatal(err)
		}
		if err := j.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDiskThatWasAwayResurrectsNothing: a file that cannot be deleted while the disk is
// away is deleted later, and before those that supersede it, or the next process would
// run what is completed.
func TestDiskThatWasAwayResurrectsNothing(t *testing.T) {
	j := open(t, Config{Dir: filepath.Join(t.TempDir(), "journal"), SegmentBytes: 1})
	j.Delivered(id(0), 0, 0)
	spill(t, j, 0)
	back := away(t, j)
	j.Completed(id(0))
	j.Delivered(id(1), 0, 1)
	begin(j, id(1)) // returns when the disk has refused
	compactNow(j)
	back()
	j.Covered(0, func(offset int64) bool { return offset == 0 })
	j.Delivered(id(2), 0, 2)
	begin(j, id(2))
	compactNow(j)
	if p := again(t, j).Past(id(0)); p != (Past{}) {
		t.Errorf("what was completed and covered: %+v", p)
	}
}

// TestFileThatCannotBeDeletedIsKeptInOrder: no younger file goes before it.
func TestFileThatCannotBeDeletedIsKeptInOrder(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), SegmentBytes: 1})
	for i := range 3 {
		j.Delivered(id(i), 0, int64(i))
		spill(t, j, i)
	}
	oldest, err := filepath.Glob(filepath.Join(j.cfg.Dir, "00000001-*"))
	if err != nil || len(oldest) != 1 {
		t.Fatalf("oldest file %q, %v", oldest, err)
	}
	if err := errors.Join(os.Remove(oldest[0]), os.MkdirAll(filepath.Join(oldest[0], "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		j.Completed(id(i))
	}
	j.Covered(0, func(int64) bool { return true })
	before := j.log.Segments()
	compactNow(j)
	if got := j.log.Segments(); got != before {
		t.Errorf("%d files of %d", got, before)
	}
	if err := os.RemoveAll(oldest[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(oldest[0], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	compactNow(j)
	if got := j.log.Segments(); got != 1 {
		t.Errorf("%d files when it can be deleted", got)
	}
}

// TestDiskThatIsAwayDamagesNoMessage: a message that cannot be read for a while is
// there when the disk is back, whether it was to be taken or to be rewritten.
func TestDiskThatIsAwayDamagesNoMessage(t *testing.T) {
	j := open(t, Config{Dir: filepath.Join(t.TempDir(), "journal")})
	j.Delivered(id(0), 0, 0)
	spill(t, j, 0)
	j = again(t, j)
	back := away(t, j)
	if _, _, err := j.Take(id(0)); err == nil || errors.Is(err, wal.ErrDamaged) {
		t.Errorf("taken while the disk is away: %v", err)
	}
	if j.rewrite(j.log.Oldest()) {
		t.Error("rewritten while the disk is away")
	}
	back()
	if text, _, err := j.Take(id(0)); err != nil || string(text) != string(messageOf(0)) {
		t.Errorf("taken when it is back: %q, %v", text, err)
	}
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
		if !ok || k2 != k || e2 != e || kind2 != kind || string(payload2) != string(payload) {
			t.Fatalf("%x: %+v became %+v", data, e, e2)
		}
	})
}

// A former process's word on an activation counts wherever it is delivered, and
// once: a second message with its id is another one.
func TestDeliveredOnce(t *testing.T) {
	dir := t.TempDir()
	id, other := activation.ID(strings.Repeat("a", 32)), activation.ID(strings.Repeat("b", 32))
	j, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []activation.ID{id, other} {
		j.Delivered(a, 0, 7)
		begin(j, a)
	}
	j.Completed(id)
	if got := j.Delivered(id, 0, 8); got != (Past{Other: true}) {
		t.Errorf("another message with the id: %+v, want nothing known", got)
	}
	if got := j.Delivered(id, 0, 7); got.State != Completed {
		t.Errorf("the same message: %+v, want completed", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = Open(Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if got := j.Delivered(id, 0, 9); got.State != Completed { // the log was made anew
		t.Errorf("delivered again: %+v, want completed", got)
	}
	if got := j.Delivered(id, 0, 10); got != (Past{Other: true}) {
		t.Errorf("another message with the id: %+v, want nothing known", got)
	}
	if got := j.Delivered(other, 0, 7); got.State != Started {
		t.Errorf("delivered again: %+v, want started", got)
	}
}
