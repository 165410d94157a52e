package statefile

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
	var logged bytes.Buffer
	d, err := Open(path, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, &logged
}

func sample(name string) container.StateFile {
	return container.StateFile{
		ID: "8f2c", Name: name, Key: "00ff", Kind: "python:3", Image: "i:1", MemoryMB: 256, Concurrency: 2,
		GPU:      &container.GPUStateFile{Device: "GPU-1", Namespace: "guest", Function: "guest/f", HostMB: 512, Shim: "managed"},
		Activity: container.Idle, Since: time.Unix(0, 1763776800000000001), DeviceMemory: container.DeviceMemory{Allocated: 1 << 33, Resident: 5, Context: 7},
	}
}

// What one process wrote, the next one reads, whatever ended the first.
func TestStatesOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "warm")
	d, _ := open(t, path)
	one, two, three := sample("wsk00_1_a"), sample("wsk00_2_b"), sample("wsk00_3_c")
	two.GPU, two.Key = nil, ""
	for _, n := range []container.StateFile{one, two, three} {
		d.Write(n)
	}
	d.SetActivity(one.Name, container.Busy, one.Since, container.DeviceMemory{})
	d.SetActivity(two.Name, container.Pausing, two.Since.Add(time.Second), two.DeviceMemory)
	d.Drop(three.Name)
	one.Activity, one.DeviceMemory = container.Busy, container.DeviceMemory{}
	two.Activity, two.Since = container.Pausing, two.Since.Add(time.Second)
	next, logged := open(t, path) // the first was not closed
	got := next.Read()
	if want := []container.StateFile{one, two}; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	next.SetActivity(one.Name, container.Idle, one.Since, one.DeviceMemory) // it goes on with them
	if got := next.Read()[0].Activity; got != container.Idle || logged.Len() > 0 {
		t.Errorf("%c, %s", got, logged)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v: others may read it", info.Mode(), err)
	}
}

// A slow disk delays the call for its container alone.
func TestSlowDiskDelaysOneContainer(t *testing.T) {
	path := t.TempDir()
	d, _ := open(t, path)
	slow, other := sample("wsk00_1_a"), sample("wsk00_2_b")
	d.Write(other)
	// While there is a lease on the file, opening it waits for the end of the lease (fcntl(2)).
	leased, err := os.Create(filepath.Join(path, "wsk00_1_a.note.new"))
	if err != nil {
		t.Fatal(err)
	}
	defer leased.Close()
	if _, err := unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no lease on a file here: ", err)
	}
	written := make(chan struct{})
	go func() { defer close(written); d.Write(slow) }()
	for {
		lease, err := unix.FcntlInt(leased.Fd(), unix.F_GETLEASE, 0)
		if err != nil {
			t.Fatal(err)
		}
		if lease != unix.F_WRLCK { // the write waits for it
			break
		}
		select {
		case <-written:
			t.Skip("a lease delays no write here")
		case <-time.After(time.Millisecond):
		}
	}
	d.SetActivity(other.Name, container.Busy, other.Since, container.DeviceMemory{})
	select {
	case <-written:
		t.Error("the activity waited for the other container's file, or that for nothing")
	default:
	}
	if _, err := unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	<-written
	if got := d.Read(); len(got) != 2 || got[1].Activity != container.Busy {
		t.Errorf("got %+v", got)
	}
}

// A container whose state cannot be written has no state file: it is removed by
// the next process.
func TestStateThatCannotBeWritten(t *testing.T) {
	d, logged := open(t, t.TempDir())
	d.Write(sample("wsk00_1_a"))
	if err := d.open["wsk00_1_a"].Close(); err != nil { // writes to it fail from now on
		t.Fatal(err)
	}
	d.SetActivity("wsk00_1_a", container.Busy, time.Now(), container.DeviceMemory{})
	if got := d.Read(); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
	d.SetActivity("wsk00_2_b", container.Busy, time.Now(), container.DeviceMemory{})
	if n := strings.Count(logged.String(), "cannot be written"); n != 1 {
		t.Errorf("logged %d times: %s", n, logged)
	}
}

// A damaged file is not used, and removed.
func TestDamagedFiles(t *testing.T) {
	path := t.TempDir()
	d, _ := open(t, path)
	whole, err := encode(sample("wsk00_1_a"))
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
	whole, _ := encode(sample("wsk00_1_a"))
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

func BenchmarkSetActivity(b *testing.B) {
	d, err := Open(b.TempDir(), slog.Default())
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	d.Write(sample("wsk00_1_a"))
	now := time.Now()
	for b.Loop() {
		d.SetActivity("wsk00_1_a", container.Busy, now, container.DeviceMemory{})
		d.SetActivity("wsk00_1_a", container.Idle, now, container.DeviceMemory{Allocated: 1 << 30})
	}
}
