package shimctl

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// hostile is the connection of a shim that sends frames which ours never sends.
type hostile struct {
	t    testing.TB
	conn *net.UnixConn
}

func dial(t testing.TB, c *Container) *hostile {
	t.Helper()
	return dialAt(t, c.Socket())
}

func dialAt(t testing.TB, path string) *hostile {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(hang))
	return &hostile{t, conn}
}

func (l *hostile) send(b []byte) {
	l.t.Helper()
	_, err := l.conn.Write(b)
	check.NoError(l.t, err)
}

// pair packs two fields of 32 bits.
func pair(low, high uint32) uint64 { return uint64(low) | uint64(high)<<32 }

func (l *hostile) hello(pid uint32) { l.send(encode(typeHello, 0, pair(version, pid), 0)) }

func (l *hostile) usage(contexts uint32, allocated, resident uint64) {
	l.send(encode(typeUsage, 0, pair(contexts, 0), allocated, resident, 0, 0, 0))
}

// receive skips frames until one of this kind comes.
func (l *hostile) receive(kind frameType) []byte {
	l.t.Helper()
	for {
		b := l.receiveAny()
		if frameType(binary.LittleEndian.Uint16(b[4:])) == kind {
			return b
		}
	}
}

func (l *hostile) receiveAny() []byte {
	l.t.Helper()
	head := make([]byte, headerSize)
	_, err := io.ReadFull(l.conn, head)
	check.NoError(l.t, err)
	rest := make([]byte, binary.LittleEndian.Uint32(head)-headerSize)
	_, err = io.ReadFull(l.conn, rest)
	check.NoError(l.t, err)
	return append(head, rest...)
}

// ended waits until the other side has closed the connection.
func (l *hostile) ended() {
	l.t.Helper()
	_, err := io.Copy(io.Discard, l.conn)
	check.That(check.Must(l.t), !errors.Is(err, os.ErrDeadlineExceeded), "the connection goes on")
}

func TestImplausibleUsageIsCapped(t *testing.T) {
	const device = 8 << 30
	ctl, rec := openControl(t, Settings{MaxResident: device, Context: 100})
	c := openContainer(t, ctl, "a")
	l := dial(t, c)
	// Another process's id in hello is ignored.
	l.hello(1)
	cases := []struct {
		name                string
		contexts            uint32
		allocated, resident uint64
		want                gpu.Usage
	}{
		{"huge", 1, 1 << 60, 1 << 60, gpu.Usage{Allocated: maxBytes, Resident: device, Context: 100}},
		{"negative", 0, math.MaxUint64, 1 << 63, gpu.Usage{Allocated: maxBytes, Resident: device}},
		{"more resident than allocated", 0, 5, 9, gpu.Usage{Allocated: 5, Resident: 5}},
		{"contexts", math.MaxUint32, 0, 0, gpu.Usage{Context: 1600}},
	}
	for _, tc := range cases {
		l.usage(tc.contexts, tc.allocated, tc.resident)
		e := rec.await(t, tc.name, func(e event) bool { return e.usage != nil })
		check.Equal(t, *e.usage, tc.want, "%s", tc.name)
		check.Equal(t, e.pid, os.Getpid(), "%s", tc.name)
	}
}

func TestImplausibleAnswersAreCapped(t *testing.T) {
	ctl, _ := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	l := dial(t, c)
	l.hello(0)
	l.receive(typeHello)
	done := make(chan Done, 1)
	go func() {
		d, _ := c.Evict(context.Background(), 3)
		done <- d
	}()
	l.receive(typeEvict)
	// Answers without a question change nothing.
	l.send(encode(typeDone, 2, 0, 0, 7, 7, 7))
	l.send(encode(typeDone, 4, 0, 0, 7, 7, 7))
	l.send(encode(typeDone, 3, pair(4, 99), 0, math.MaxUint64, math.MaxUint64, math.MaxUint64))
	d := check.Receive(t, done)
	check.Equal(t, d.Moved, maxBytes)
	check.Equal(t, d.Resident, maxBytes)
	check.AtLeast(t, d.Took, 0)
	check.Equal(t, d.Status, Failed)
	check.Equal(t, d.Processes, 1)
}

func TestMalformedFrameEndsTheConnection(t *testing.T) {
	ctl, _ := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	cases := map[string][]byte{
		"no hello":      encode(typeUsage, 0, 0, 0, 0, 0, 0, 0),
		"no length":     make([]byte, 32),
		"endless":       {255, 255, 255, 255, 1, 0, 0, 0},
		"other version": encode(typeHello, 0, pair(version+1, 0), 0),
		"short hello":   encode(typeHello, 0),
	}
	for name, b := range cases {
		t.Run(name, func(t *testing.T) {
			l := dial(t, c)
			l.send(b)
			l.ended()
		})
	}
	l := dial(t, c)
	l.hello(0)
	l.receive(typeHello)
	l.send([]byte{20, 0, 0, 0, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4})
	l.ended()
	_, err := c.Report(limited(t))
	check.NoError(t, err)
}

// TestFloodHurtsNoOther: a process that sends without end is read at a bounded
// rate, and its neighbour is served meanwhile.
func TestFloodHurtsNoOther(t *testing.T) {
	ctl, _ := openControl(t, Settings{})
	bad, good := openContainer(t, ctl, "bad"), openContainer(t, ctl, "good")
	l := dial(t, bad)
	l.hello(0)
	flood := encode(typeUsage, 0, 0, 1, 1, 0, 0, 0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := l.conn.Write(flood); err != nil {
				return
			}
		}
	}()
	g := startGuest(t, good)
	g.Do("alloc %d", mib)
	g.Do("fill 0 1")
	for epoch := uint64(1); epoch <= 20; epoch++ {
		_, err := good.Evict(limited(t), epoch)
		check.NoError(t, err)
	}
	g.Do("check 0 1")
	_ = l.conn.Close()
	check.Receive(t, ended)
}

func TestRateIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	p := rateLimit{left: frameBurst, at: now, perSecond: framesPerSecond, burst: frameBurst}
	for i := range frameBurst {
		check.Equal(check.Must(t), p.next(now), 0, "frame %d waits", i)
	}
	check.Equal(t, p.next(now), time.Second/framesPerSecond, "beyond the burst a frame waits")
	check.Equal(t, p.next(now.Add(time.Hour)), 0, "after a rest a frame waits")
}

// TestFloodIsBoundedByContainer: connections that replace each other get no new
// allowance, whatever they send.
func TestFloodIsBoundedByContainer(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "bad")
	began := time.Now()
	flood := bytes.Repeat(encode(typeUsage, 0, 0, 1, 1, 0, 0, 0), 1000)
	const connections, each = 8, 500
	for range connections {
		l := dial(t, c)
		l.hello(0)
		l.receive(typeHello)
		go func() { _, _ = l.conn.Write(flood) }() // ends with the connection
		for range each {
			rec.await(t, "a usage", func(e event) bool { return e.usage != nil })
		}
	}
	least := time.Second * (connections*each - frameBurst) / framesPerSecond
	check.AtLeast(t, time.Since(began), least)
}

// TestListenerIsNotFlooded: connections made in a loop are accepted at a bounded
// rate and logged in one line, and another container is served meanwhile.
func TestListenerIsNotFlooded(t *testing.T) {
	examined := make(chan struct{}, 1<<16)
	var lines countLines
	ctl, _ := openControlLogged(t, Settings{Owns: func(id string, _ int) bool {
		if id == "bad" {
			examined <- struct{}{}
		}
		return id != "bad"
	}}, slog.New(slog.NewTextHandler(&lines, nil)))
	bad, good := openContainer(t, ctl, "bad"), openContainer(t, ctl, "good")
	began := time.Now()
	for range 3 * acceptBurst {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: bad.Socket(), Net: "unix"})
		if err != nil {
			break // its queue is full: that is the point
		}
		defer conn.Close()
	}
	l := dial(t, good)
	l.hello(0)
	l.receive(typeHello)
	n := len(examined) // first: more are examined meanwhile
	check.AtMost(t, n, acceptBurst+int(time.Since(began).Seconds()*acceptsPerSecond)+1, "connections were examined")
	check.NoError(t, ctl.Close())
	check.AtMost(t, lines.n.Load(), 1+int32(time.Since(began)/retry.LogPause), "lines in the log")
}

// TestHungUpConnectionsHoldNoThreads: the end of a process whose connection ended is
// waited for without a thread.
func TestHungUpConnectionsHoldNoThreads(t *testing.T) {
	ctl, _ := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	var conns []*hostile
	for range DefaultProcesses {
		conns = append(conns, dial(t, c))
	}
	connected := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
			c.mu.Lock()
			n := c.conns
			c.mu.Unlock()
			if n == want {
				return
			}
			check.That(check.Must(t), !time.Now().After(deadline), "%d connections, want %d", n, want)
		}
	}
	connected(DefaultProcesses)
	threads := pprof.Lookup("threadcreate")
	before := threads.Count()
	for _, l := range conns {
		_ = l.conn.Close()
	}
	connected(0)
	check.AtMost(t, threads.Count()-before, DefaultProcesses/2)
}

// TestEndOfAProcessIsSeen: waiting for a process ends with the process.
func TestEndOfAProcessIsSeen(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	check.NoError(t, err)
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	l := watch(nil, cmd.Process.Pid)
	defer l.release()
	check.That(t, !l.ended(0), "a process that runs has ended")
	seen := make(chan bool)
	go func() { seen <- l.ended(time.Minute) }()
	_ = in.Close()
	check.That(t, check.Receive(t, seen), "the end of a process is not seen")
	check.That(t, l.ended(0), "a process that has ended is not ended")
	_ = cmd.Wait()
}

// countLines counts the written lines.
type countLines struct{ n atomic.Int32 }

func (c *countLines) Write(p []byte) (int, error) {
	c.n.Add(1)
	return len(p), nil
}

// TestSilence: a process that does not answer is reported, is waited for no longer than the
// caller wants, and may come back.
func TestSilence(t *testing.T) {
	ctl, rec := openControl(t, Settings{Heartbeat: 5 * time.Millisecond, Silence: 30 * time.Millisecond})
	c := openContainer(t, ctl, "a")
	l := dial(t, c)
	l.hello(0)
	l.receive(typeHello)
	rec.await(t, "silence", func(e event) bool { return e.silent != nil && *e.silent })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Evict(ctx, 1)
	check.ErrorIs(t, err, context.DeadlineExceeded, "an order to a silent process ended")
	l.send(encode(typePong, 0))
	rec.await(t, "its end", func(e event) bool { return e.silent != nil && !*e.silent })
}

// TestHangUpIsNoExit: a process that only closes its connection still holds its
// memory.
func TestHangUpIsNoExit(t *testing.T) {
	ctl, rec := openControl(t, Settings{Heartbeat: 5 * time.Millisecond})
	c := openContainer(t, ctl, "a")
	l := dial(t, c)
	l.hello(0)
	l.usage(0, 9, 9)
	rec.awaitUsage(t, os.Getpid(), 9)
	_ = l.conn.Close()
	for disconnected := false; !disconnected; runtime.Gosched() {
		c.mu.Lock()
		disconnected = len(c.disconnected) == 1
		c.mu.Unlock()
	}
	again := dial(t, c)
	again.hello(0)
	again.usage(0, 10, 10)
	rec.await(t, "usage after coming back, and no exit before", func(e event) bool {
		check.That(t, !e.exited, "a hang-up was taken for an exit")
		return e.usage != nil && e.usage.Allocated == 10
	})
}

func TestTooManyProcesses(t *testing.T) {
	ctl, _ := openControl(t, Settings{Processes: 1})
	c := openContainer(t, ctl, "a")
	l := dial(t, c)
	l.hello(0)
	l.receive(typeHello)
	dial(t, c).ended()
	// The served process goes on.
	l.send(encode(typePong, 0))
	check.Equal(t, c.Processes(), 1)
}

func TestForeignProcessIsRefused(t *testing.T) {
	ctl, _ := openControl(t, Settings{Owns: func(id string, pid int) bool {
		return id == "mine" && pid == os.Getpid()
	}})
	mine, other := openContainer(t, ctl, "mine"), openContainer(t, ctl, "other")
	l := dial(t, mine)
	l.hello(0)
	l.receive(typeHello)
	dial(t, other).ended()
}

func TestDirectoriesArePrivate(t *testing.T) {
	ctl, _ := openControl(t, Settings{})
	c := openContainer(t, ctl, strings.Repeat("a long container name ", 20))
	top, err := os.Stat(filepath.Dir(c.Dir()))
	check.NoError(t, err, "the directory of all")
	check.Equal(t, top.Mode().Perm(), 0o700, "the directory of all")
	_, err = ctl.Container(c.id)
	check.That(t, err != nil, "a container was opened twice")
	dir := c.Dir()
	check.NoError(t, c.Close())
	_, err = os.Stat(dir)
	check.ErrorIs(t, err, os.ErrNotExist, "the directory of a closed container")
	_, err = c.Evict(limited(t), 1)
	check.ErrorIs(t, err, ErrClosed, "an order to a closed container ended")
	again := openContainer(t, ctl, c.id)
	check.Equal(t, again.Dir(), dir, "the same container")
	file := filepath.Join(t.TempDir(), "file")
	check.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(file, Settings{MaxResident: 1}, newRecorder(), discard())
	check.That(t, err != nil, "a file was taken for a directory")
	_, err = Open(t.TempDir(), Settings{}, newRecorder(), discard())
	check.That(t, err != nil, "a device without memory was accepted")
}

func TestCloseEndsWaiters(t *testing.T) {
	ctl, _ := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	l := dial(t, c)
	l.hello(0)
	l.receive(typeHello)
	ended := make(chan error, 2)
	go func() { _, err := c.Evict(context.Background(), 1); ended <- err }()
	l.receive(typeEvict)
	go func() { _, err := c.Report(context.Background()); ended <- err }()
	l.receive(typeReport)
	check.NoError(t, ctl.Close())
	for range 2 {
		check.ErrorIs(t, check.Receive(t, ended), ErrClosed)
	}
}
