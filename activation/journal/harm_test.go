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
	"github.com/gpuwhisk/gpuwhisk/activation/wal"
)

// TestCutAndFlippedAnywhere: however the file is damaged, the journal opens,
// and what is whole in it is known.
func TestCutAndFlippedAnywhere(t *testing.T) {
	dir := t.TempDir()
	ending := []byte(`{"response":{}}`)
	j := open(t, Config{Dir: dir, Sync: wal.None})
	for i := range 6 {
		j.Delivered(id(i), 0, int64(i))
		park(t, j, i)
	}
	begin(j, id(1))
	if err := owe(j, id(1), ending); err != nil {
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
				if p.Parked {
					if got, err := j.Message(id(i)); err != nil || string(got) != string(message(i)) {
						t.Fatalf("at %d: message %d: %q, %v", at, i, got, err)
					}
				} else if i != 2 {
					lost++
				}
			}
			if j.Past(id(1)).Owed {
				if got, err := j.Owed(id(1)); err != nil || string(got) != string(ending) {
					t.Fatalf("at %d: ending %q, %v", at, got, err)
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
	said := 0
	for lines := bufio.NewScanner(out); said < 2000 && lines.Scan(); said++ {
		if lines.Text() != fmt.Sprint(said) {
			t.Fatalf("victim said %q", lines.Text())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if said < 2000 {
		t.Fatalf("the victim ended by itself after %d", said)
	}
	j := open(t, Config{Dir: dir})
	for i := range said {
		if got := j.Past(id(i)); got != (Past{State: Started, Crashes: 1, Parked: true}) {
			t.Fatalf("activation %d: %+v", i, got)
		}
		if got, err := j.Message(id(i)); err != nil || string(got) != string(message(i)) {
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
		if err := parkOne(j, id(i), message(i)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		begin(j, id(i))
		fmt.Println(i)
	}
}

// TestDiskThatRefusesHoldsUpNoRun: steps go on, parking is refused, and whoever
// takes in more work is told to wait.
func TestDiskThatRefusesHoldsUpNoRun(t *testing.T) {
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
	if err := parkOne(j, id(1), message(1)); err == nil {
		t.Error("parked on a disk that is not there")
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

// TestParkedWaitsForTheDisk: of a parked activation nobody else knows, so it does
// not begin before that is kept; one that is not parked does.
func TestParkedWaitsForTheDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := open(t, Config{Dir: dir, SegmentBytes: 1})
	for i := range 2 {
		j.Delivered(id(i), 0, int64(i))
	}
	if err := parkOne(j, id(0), message(0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	if err := j.Begin(t.Context(), id(1)); err != nil {
		t.Errorf("not parked: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Begin(ended, id(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("parked, on a disk that is not there: %v", err)
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

func FuzzDecode(f *testing.F) {
	f.Add(encode(nil, keyOf(id(7)), &entry{state: Started, partition: 3, offset: 1 << 40, starts: 2}, 0))
	f.Add(append(encode(nil, keyOf(id(7)), &entry{state: Started, offset: 5}, owedBit), `{"ended":1}`...))
	f.Add(append(encode(nil, keyOf(id(7)), &entry{state: Accepted, offset: -1}, parkedBit), "message"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, e, message, ok := decode(data)
		if !ok {
			return
		}
		follows := byte(0)
		switch {
		case e.owes:
			follows = owedBit
		case message != nil:
			follows = parkedBit
		}
		back := append(encode(nil, k, &e, follows), message...)
		k2, e2, message2, ok := decode(back)
		if !ok || k2 != k || e2 != e || string(message2) != string(message) {
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
