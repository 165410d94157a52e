package warmth

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

func open(t *testing.T, path string) (*Dir, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	d, err := Open(path, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, &said
}

func note(name string) container.Note {
	return container.Note{
		ID: "8f2c", Name: name, Key: "00ff", Kind: "python:3", Image: "i:1", MemoryMB: 256, Concurrency: 2,
		GPU:  &container.GPUNote{Device: "GPU-1", Namespace: "guest", Function: "guest/f", HostMB: 512, Shim: "managed"},
		Rest: container.Resting, Since: time.Unix(0, 1763776800000000001), Holds: container.Holds{Allocated: 1 << 33, Resident: 5, Context: 7},
	}
}

// What one process wrote, the next one reads, whatever ended the first.
func TestNotesOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "warm")
	d, _ := open(t, path)
	one, two, three := note("wsk00_1_a"), note("wsk00_2_b"), note("wsk00_3_c")
	two.GPU, two.Key = nil, ""
	for _, n := range []container.Note{one, two, three} {
		d.Write(n)
	}
	d.Mark(one.Name, container.Busy, one.Since, container.Holds{})
	d.Mark(two.Name, container.Pausing, two.Since.Add(time.Second), two.Holds)
	d.Drop(three.Name)
	one.Rest = container.Busy
	two.Rest, two.Since = container.Pausing, two.Since.Add(time.Second)
	next, said := open(t, path) // the first was not closed
	got := next.Read()
	if want := []container.Note{one, two}; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	next.Mark(one.Name, container.Resting, one.Since, one.Holds) // it goes on with them
	if got := next.Read()[0].Rest; got != container.Resting || said.Len() > 0 {
		t.Errorf("%c, %s", got, said)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v: others may read it", info.Mode(), err)
	}
}

// One that is used again and again has no more than its letter changed, for a
// second; what it holds is always true.
func TestSinceIsToASecond(t *testing.T) {
	d, _ := open(t, t.TempDir())
	n := note("wsk00_1_a")
	d.Write(n)
	more := n.Holds
	more.Resident++
	for i, c := range []struct {
		after time.Duration
		holds container.Holds
		since time.Duration
	}{
		{exact - 1, n.Holds, 0},
		{exact, n.Holds, exact},
		{exact + 5, more, exact + 5},
		{exact + 9, more, exact + 5},
		{exact, more, exact}, // the clock was put back
	} {
		d.Mark(n.Name, container.Busy, time.Time{}, container.Holds{})
		if got := d.Read()[0].Rest; got != container.Busy {
			t.Fatalf("%d: %c amid a run", i, got)
		}
		d.Mark(n.Name, container.Resting, n.Since.Add(c.after), c.holds)
		if got := d.Read()[0]; got.Rest != container.Resting || !got.Since.Equal(n.Since.Add(c.since)) || got.Holds != c.holds {
			t.Errorf("%d: got %+v, want since %v", i, got, c.since)
		}
	}
}

// A disk that takes its time for one container's note holds up no run in another.
func TestSlowDiskHoldsUpOneOnly(t *testing.T) {
	path := t.TempDir()
	d, _ := open(t, path)
	slow, other := note("wsk00_1_a"), note("wsk00_2_b")
	d.Write(other)
	// While a lease is held, who opens the file waits for its end (fcntl(2)).
	held, err := os.Create(filepath.Join(path, "wsk00_1_a.note.new"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := unix.FcntlInt(held.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no lease on a file here: ", err)
	}
	written := make(chan struct{})
	go func() { defer close(written); d.Write(slow) }()
	for {
		lease, err := unix.FcntlInt(held.Fd(), unix.F_GETLEASE, 0)
		if err != nil {
			t.Fatal(err)
		}
		if lease != unix.F_WRLCK { // somebody waits for it
			break
		}
		select {
		case <-written:
			t.Skip("a lease holds nobody up here")
		case <-time.After(time.Millisecond):
		}
	}
	d.Mark(other.Name, container.Busy, other.Since, container.Holds{})
	select {
	case <-written:
		t.Error("the mark waited for the other's note, or that for nothing")
	default:
	}
	if _, err := unix.FcntlInt(held.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	<-written
	if got := d.Read(); len(got) != 2 || got[1].Rest != container.Busy {
		t.Errorf("got %+v", got)
	}
}

// A note that cannot be written is no note: without one the container goes.
func TestNoteThatCannotBeWritten(t *testing.T) {
	path := t.TempDir()
	d, said := open(t, path)
	d.Write(note("wsk00_1_a"))
	if err := os.Truncate(filepath.Join(path, "wsk00_1_a.note"), 0); err != nil { // as a disk that is gone answers
		t.Fatal(err)
	}
	d.Mark("wsk00_1_a", container.Busy, time.Now(), container.Holds{})
	if got := d.Read(); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	d.Mark("wsk00_2_b", container.Busy, time.Now(), container.Holds{})
	if n := strings.Count(said.String(), "cannot be written"); n != 1 {
		t.Errorf("told %d times: %s", n, said)
	}
}

// Every damage to a note makes it no note, or leaves it what it was but for what
// only its own container suffers from; nothing panics.
func TestDamagedNotes(t *testing.T) {
	path := t.TempDir()
	d, _ := open(t, path)
	whole, err := encode(note("wsk00_1_a"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "wsk00_1_a.note")
	for n := range whole {
		if err := os.WriteFile(file, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := d.Read(); len(got) != 0 {
			t.Fatalf("cut after %d bytes it is taken: %+v", n, got)
		}
		if _, err := os.Stat(file); err == nil {
			t.Fatal("it is still there")
		}
	}
	other := bytes.Replace(whole, []byte("wsk00_1_a"), []byte("wsk00_1_b"), 1)
	later := bytes.Replace(whole, []byte(`"version":1`), []byte(`"version":2`), 1)
	for _, text := range [][]byte{other, later} {
		_ = os.WriteFile(file, text, 0o600)
		if got := d.Read(); len(got) != 0 {
			t.Errorf("taken: %s", text)
		}
	}
}

func TestDirectoryThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "below"), slog.Default()); err == nil {
		t.Error("no error")
	}
}

func FuzzDecode(f *testing.F) {
	whole, _ := encode(note("wsk00_1_a"))
	f.Add(whole)
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := decode(text)
		if err != nil {
			return
		}
		again, err := encode(n)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decode(again); err != nil || !reflect.DeepEqual(back, n) {
			t.Fatalf("%+v is read as %+v, %v", n, back, err)
		}
	})
}

func BenchmarkMark(b *testing.B) {
	d, err := Open(b.TempDir(), slog.Default())
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	d.Write(note("wsk00_1_a"))
	now := time.Now()
	for b.Loop() {
		d.Mark("wsk00_1_a", container.Busy, now, container.Holds{})
		d.Mark("wsk00_1_a", container.Resting, now, container.Holds{Allocated: 1 << 30})
	}
}
