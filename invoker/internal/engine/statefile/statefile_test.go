package statefile

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

func open(t *testing.T, path string) (*Dir, *bytes.Buffer) {
	t.Helper()
	var logged bytes.Buffer
	d, err := Open(path, slog.New(slog.NewTextHandler(&logged, nil)))
	check.NoError(t, err)
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

// TestStatesOutliveTheProcess: the next process reads the states, no matter how the
// first one ended.
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
	check.DeepEqual(t, got, []container.StateFile{one, two})
	next.SetActivity(one.Name, container.Idle, one.Since, one.DeviceMemory) // it goes on with them
	check.Equal(t, next.Read()[0].Activity, container.Idle)
	check.AtMost(t, logged.Len(), 0)
	info, err := os.Stat(path)
	check.NoError(t, err)
	check.Equal(t, info.Mode().Perm(), 0o700)
}

// A slow disk delays the call for its container alone.
func TestSlowDiskDelaysOneContainer(t *testing.T) {
	path := t.TempDir()
	d, _ := open(t, path)
	slow, other := sample("wsk00_1_a"), sample("wsk00_2_b")
	d.Write(other)
	// While there is a lease on the file, opening it waits for the end of the lease (fcntl(2)).
	leased, err := os.Create(filepath.Join(path, "wsk00_1_a.note.new"))
	check.NoError(t, err)
	defer leased.Close()
	if _, err := unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no lease on a file here: ", err)
	}
	written := make(chan struct{})
	go func() { defer close(written); d.Write(slow) }()
	for {
		lease, err := unix.FcntlInt(leased.Fd(), unix.F_GETLEASE, 0)
		check.NoError(t, err)
		if lease != unix.F_WRLCK { // the write blocks until the lease is given up
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
	_, err = unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	check.NoError(t, err)
	check.Receive(t, written)
	got := d.Read()
	check.Equal(check.Must(t), len(got), 2)
	check.Equal(t, got[1].Activity, container.Busy)
}

// TestStateThatCannotBeWritten: a container whose state cannot be written loses its
// state file, so the next process removes the container.
func TestStateThatCannotBeWritten(t *testing.T) {
	d, logged := open(t, t.TempDir())
	d.Write(sample("wsk00_1_a"))
	if err := d.open["wsk00_1_a"].Close(); err != nil { // writes to it fail from now on
		t.Fatal(err)
	}
	d.SetActivity("wsk00_1_a", container.Busy, time.Now(), container.DeviceMemory{})
	check.Equal(t, len(d.Read()), 0)
	d.SetActivity("wsk00_2_b", container.Busy, time.Now(), container.DeviceMemory{})
	n := strings.Count(logged.String(), "cannot be written")
	check.Equal(t, n, 1, "logged %d times: %s", n, logged)
}

// A damaged file is not used, and removed.
func TestDamagedFiles(t *testing.T) {
	path := t.TempDir()
	d, _ := open(t, path)
	whole, err := encode(sample("wsk00_1_a"))
	check.NoError(t, err)
	file := filepath.Join(path, "wsk00_1_a.note")
	for n := range whole {
		check.NoError(t, os.WriteFile(file, whole[:n], 0o600))
		check.Equal(check.Must(t), len(d.Read()), 0, "cut after %d bytes it is taken", n)
		_, err := os.Stat(file)
		check.That(check.Must(t), err != nil, "it is still there")
	}
	other := bytes.Replace(whole, []byte("wsk00_1_a"), []byte("wsk00_1_b"), 1)
	later := bytes.Replace(whole, []byte(`"version":1`), []byte(`"version":2`), 1)
	for _, text := range [][]byte{other, later} {
		_ = os.WriteFile(file, text, 0o600)
		check.Equal(t, len(d.Read()), 0, "taken: %s", text)
	}
}

func TestDirectoryThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(filepath.Join(file, "below"), slog.Default())
	check.That(t, err != nil, "no error")
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
		check.NoError(t, err)
		back, err := decode(again)
		check.NoError(t, err)
		check.DeepEqual(check.Must(t), back, n)
	})
}

func BenchmarkSetActivity(b *testing.B) {
	d, err := Open(b.TempDir(), slog.Default())
	check.NoError(b, err)
	defer d.Close()
	d.Write(sample("wsk00_1_a"))
	now := time.Now()
	for b.Loop() {
		d.SetActivity("wsk00_1_a", container.Busy, now, container.DeviceMemory{})
		d.SetActivity("wsk00_1_a", container.Idle, now, container.DeviceMemory{Allocated: 1 << 30})
	}
}
