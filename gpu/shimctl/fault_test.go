package shimctl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// These tests let the driver, the connection or the order of things go wrong.

// TestDriverRefusalIsReported: whatever call is refused, the order reports the refusal with
// the driver's own code, the usage is true, and the next order is not affected.
func TestDriverRefusalIsReported(t *testing.T) {
	calls := []string{
		"cuMemPrefetchAsync_v2:1", "cuStreamSynchronize:1",
		"cuStreamCreateWithPriority:1",
	}
	codes := map[string]int{
		"out of memory": 2, "invalid value": 1, "context destroyed": 709, "device lost": 46,
	}
	for _, call := range calls {
		for name, code := range codes {
			t.Run(call+" "+name, func(t *testing.T) {
				ctl, rec := openControl(t, Settings{})
				c := openContainer(t, ctl, "a")
				g := startGuest(t, c, fmt.Sprintf("FAKE_CUDA_FAIL=%s:%d", call, code))
				g.Do("alloc %d", mib)
				g.Do("fill 0 1")
				rec.awaitUsage(t, g.PID(), mib)
				done, err := c.Evict(limited(t), 1)
				check.NoError(t, err)
				check.Equal(t, done.Status, Failed)
				check.Equal(t, done.Code, code)
				check.Equal(t, done.Resident, mib)
				check.Equal(t, rec.awaitUsage(t, g.PID(), mib).Resident, mib, "after the refusal")
				done, err = c.Evict(limited(t), 2)
				check.NoError(t, err, "the next eviction")
				check.Equal(t, done.Status, OK, "the next eviction")
				check.Equal(t, g.Do("used"), 0, "the next eviction")
				g.Do("check 0 1")
			})
		}
	}
}

// TestPrefetchWithoutMemory: the device is full of immovable memory. The part that arrived is
// reported as resident, and the refusal is reported, too.
func TestPrefetchWithoutMemory(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	g := startGuest(t, c, "FAKE_CUDA_FAIL=cuStreamSynchronize:2:2")
	g.Do("alloc %d", mib)
	g.Do("fill 0 1")
	rec.awaitUsage(t, g.PID(), mib)
	done, err := c.Evict(limited(t), 1)
	check.NoError(t, err)
	check.Equal(check.Must(t), done.Status, OK)
	done, err = c.Prefetch(limited(t), 2, 0)
	check.NoError(t, err)
	check.Equal(t, done.Status, Failed)
	check.Equal(t, done.Code, 2)
	check.AtLeast(t, done.Resident, g.Do("used"))
	g.Do("check 0 1")
}

// TestOrdersRaceWithARun: two evictions and a prefetch at once with a run.
// Each order ends, the run finds its memory, the usage is true at the end.
func TestOrdersRaceWithARun(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	g := startGuest(t, c, "FAKE_CUDA_BANDWIDTH=2000000000", "GPUWHISK_SHIM_CHUNK=1048576")
	g.Do("alloc %d", 8*mib)
	g.Do("fill 0 0")
	rec.awaitUsage(t, g.PID(), 8*mib)
	const rounds = 15
	for round := range uint64(rounds) {
		var orders sync.WaitGroup
		order := func(epoch uint64, move func(context.Context, uint64) (Done, error)) {
			orders.Go(func() {
				done, err := move(limited(t), epoch)
				if err != nil && !errors.Is(err, ErrReplaced) {
					t.Errorf("order %d: %+v, %v", epoch, done, err)
				}
			})
		}
		order(3*round+1, c.Evict)
		order(3*round+2, c.Evict)
		c.Running(true)
		order(3*round+3, func(ctx context.Context, epoch uint64) (Done, error) {
			return c.Prefetch(ctx, epoch, 0)
		})
		g.Do("check 0 %d", round)
		g.Do("fill 0 %d", round+1)
		c.Running(false)
		orders.Wait()
	}
	done, err := c.Evict(limited(t), 1000)
	check.NoError(t, err, "the last eviction")
	check.Equal(t, done.Status, OK, "the last eviction")
	check.Equal(t, done.Resident, 0, "the last eviction")
	check.Equal(t, g.Do("used"), 0, "bytes on the device after the last eviction")
	g.Do("check 0 %d", rounds)
}

// TestTornFrame: half an answer is none: the next connection gets the order again,
// and is received.
func TestTornFrame(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	l := dial(t, c)
	l.hello(0)
	l.receive(typeHello)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Evict(context.Background(), 1)
		ended <- err
	}()
	l.receive(typeEvict)
	l.send(encode(typeDone, 1, 0, 0, 0, 0, 0)[:headerSize+5])
	_ = l.conn.Close()
	again := dial(t, c)
	again.hello(0)
	again.usage(0, 7, 7)
	rec.awaitUsage(t, os.Getpid(), 7)
	again.receive(typeEvict)
	again.send(encode(typeDone, 1, 0, 0, 0, 0, 0))
	check.NoError(t, check.Receive(t, ended), "the order ended")
}

// TestOtherVersionGetsOurs: a shim of another version learns why it is left alone, its usage
// does not count, and its neighbours are served.
func TestOtherVersionGetsOurs(t *testing.T) {
	ctl, rec := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	for _, other := range []uint32{0, version + 1, 1 << 31} {
		l := dial(t, c)
		l.send(append(encode(typeHello, 0, pair(other, 0), 0), encode(typeUsage, 0, 0, 5, 5, 0, 0, 0)...))
		check.Equal(t, binary.LittleEndian.Uint32(l.receive(typeHello)[headerSize:]), version, "version %d was sent", other)
		l.ended()
	}
	g := startGuest(t, c)
	e := rec.await(t, "the first usage", func(e event) bool { return e.usage != nil })
	check.Equal(t, e.pid, g.PID(), "usage of process")
	check.Equal(t, c.Processes(), 1)
}

// TestSlowReaderFallsBehind: a process is sent more than it reads. Frames that were sent
// before it fell behind reach it whole and in order. When it reads again, it is served again.
func TestSlowReaderFallsBehind(t *testing.T) {
	ctl, _ := openControl(t, Settings{})
	c := openContainer(t, ctl, "a")
	l := dial(t, c)
	l.hello(0)
	l.receive(typeHello)
	const sentFrames = 5000
	for i := range int64(sentFrames) {
		c.Limit(i, i)
	}
	c.mu.Lock()
	behind := len(c.processes[os.Getpid()].out) >= outQueue-1 // one may be on its way
	c.mu.Unlock()
	check.That(t, behind, "%d frames did not fill the socket and the queue", sentFrames)
	// Once the queue is empty a question can be sent.
	go func() {
		for !c.caughtUp() {
			runtime.Gosched()
		}
		_, _ = c.Report(context.Background())
	}()
	last, received, whole := int64(-1), 0, 0
	for {
		b := l.receiveAny()
		kind := frameType(binary.LittleEndian.Uint16(b[4:]))
		if kind == typeReport {
			break
		}
		if kind != typeLimit {
			continue
		}
		value := int64(binary.LittleEndian.Uint64(b[headerSize:]))
		check.Greater(check.Must(t), value, last)
		last = value
		if received++; value == int64(whole) {
			whole++
		}
	}
	// One more frame may fit between the lost ones, because the kernel frees the buffer of
	// read frames at a time of its own.
	check.Greater(t, whole, outQueue)
	check.Less(t, received, sentFrames)
}

// caughtUp reports whether nothing waits for any process to read.
func (c *Container) caughtUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if p.queued.Load() != 0 {
			return false
		}
	}
	return true
}
