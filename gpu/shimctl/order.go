package shimctl

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// Status is the outcome of an order; of several processes the worst one counts.
type Status int

// The values of shim/src/agent/frame.h, the better before the worse.
const (
	// OK: everything is where it was ordered to.
	OK Status = iota
	// Cancelled: a newer order or the begin of a run ended it.
	Cancelled
	// Stale: a process has a newer order.
	Stale
	// Failed: the driver refused a part; Done.Code is its answer.
	Failed
	// Partial: the budget or the deadline ended it.
	Partial
)

// String returns the name for logs.
func (s Status) String() string {
	names := [...]string{"ok", "cancelled", "stale", "failed", "partial"}
	if s >= 0 && int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("status(%d)", int(s))
}

// Done is the outcome of an order, summed over the container's processes.
type Done struct {
	Epoch     uint64
	Moved     int64         // bytes
	Took      time.Duration // of the slowest process
	Resident  int64         // bytes still on the device, or there again
	Status    Status
	Code      int // the driver's refusal, 0 if none
	Processes int // that answered
}

// round is one question to several processes and their answers. The
// container's mu guards it; ended is closed when no process is waited for.
type round struct {
	frame   []byte              // of an order, for a process that comes back
	waiting map[*process]limits // the grant at the time of the question
	ended   chan struct{}
	over    bool
	err     error
	done    Done
	usage   map[int]gpu.Usage
}

func newRound(epoch uint64) *round {
	return &round{
		waiting: map[*process]limits{}, ended: make(chan struct{}),
		done: Done{Epoch: epoch}, usage: map[int]gpu.Usage{},
	}
}

// wait has the round wait for a process.
func (r *round) wait(p *process) { r.waiting[p] = p.grant }

// end lets the caller go on.
func (r *round) end(err error) {
	if r.over {
		return
	}
	r.over, r.err = true, err
	close(r.ended)
}

// leave stops waiting for a process. True: it was waited for.
func (r *round) leave(p *process) bool {
	if _, ok := r.waiting[p]; !ok {
		return false
	}
	delete(r.waiting, p)
	if len(r.waiting) == 0 {
		r.end(nil)
	}
	return true
}

func (d *Done) add(f doneFrame) {
	d.Processes++
	d.Moved = min(d.Moved+capped(f.Moved, maxBytes), maxBytes)
	d.Resident = min(d.Resident+capped(f.Still, maxBytes), maxBytes)
	d.Took = max(d.Took, time.Duration(capped(f.Nanoseconds, math.MaxInt64)))
	status := Status(f.Status)
	if status < OK || status > Partial {
		status = Failed
	}
	// A refusal is more specific than an early end.
	if status == Failed || d.Status != Failed && status > d.Status {
		d.Status = status
	}
	if d.Code == 0 {
		d.Code = int(f.Code)
	}
}

// broadcast sends a frame to every process and waits for all answers. It also waits for a
// process whose queue is full. Only the caller's context, the end of the process or a newer
// order ends the wait. The caller must hold mu.
func (c *Container) broadcast(r *round, b []byte) {
	for _, p := range c.processes {
		r.wait(p)
		p.send(b)
	}
	if len(r.waiting) == 0 {
		r.end(nil)
	}
}

// Evict orders all memory of the container off the device and waits until
// every process has answered, ended, or ctx does. One whose connection broke is
// waited for, and gets the order when it connects again. An older order's caller gets
// ErrReplaced. A container without processes has nothing to move.
func (c *Container) Evict(ctx context.Context, epoch uint64) (Done, error) {
	return c.move(ctx, epoch, encode(typeEvict, epoch, 0))
}

// Prefetch orders the container's memory onto the device, up to budget bytes per process; 0
// means all. Memory that was never used is not allocated. The deadline of ctx is sent to the
// processes, too.
func (c *Container) Prefetch(ctx context.Context, epoch uint64, budget int64) (Done, error) {
	var left time.Duration
	if at, ok := ctx.Deadline(); ok {
		left = max(time.Until(at), 1)
	}
	return c.move(ctx, epoch, encode(typePrefetch, epoch, uint64(max(budget, 0)), uint64(left)))
}

func (c *Container) move(ctx context.Context, epoch uint64, b []byte) (Done, error) {
	r := newRound(epoch)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return r.done, ErrClosed
	}
	if old := c.order; old != nil {
		if old.done.Epoch > epoch {
			c.mu.Unlock()
			return r.done, ErrReplaced
		}
		old.end(ErrReplaced)
	}
	c.order, r.frame = r, b
	// A disconnected process still has its memory, and connects again.
	for _, p := range c.disconnected {
		r.wait(p)
	}
	c.broadcast(r, b)
	c.mu.Unlock()
	return c.await(ctx, r)
}

func (c *Container) await(ctx context.Context, r *round) (Done, error) {
	select {
	case <-r.ended:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.over {
		return r.done, r.err
	}
	return r.done, fmt.Errorf("await %d of %d processes of %s: %w",
		len(r.waiting), len(r.waiting)+r.done.Processes, c.id, ctx.Err())
}

// finished takes a process's answer to an order; false if it was not awaited.
func (c *Container) finished(p *process, epoch uint64, f doneFrame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.order
	if r == nil || r.done.Epoch != epoch || r.over || !r.leave(p) {
		return false
	}
	r.done.add(f)
	return true
}

// Report asks every process for its usage and returns the answers received until ctx ended, by
// process id. Events.Usage gets them as well.
func (c *Container) Report(ctx context.Context) (map[int]gpu.Usage, error) {
	return c.query(ctx, typeReport)
}

// Ended notifies the processes that a run has ended, as Running does, and returns
// their usage after it, as Report does, in one question.
func (c *Container) Ended(ctx context.Context) (map[int]gpu.Usage, error) {
	return c.query(ctx, typeGate, 0)
}

// query sends every process a frame that it answers with its usage.
func (c *Container) query(ctx context.Context, kind frameType, payload ...uint64) (map[int]gpu.Usage, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	r, token := c.newReport()
	c.broadcast(r, encode(kind, token, payload...))
	c.mu.Unlock()
	_, err := c.await(ctx, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reports, token)
	return r.usage, err // no answer is added any more
}

// newReport is a round of reports and its number. The caller holds mu.
func (c *Container) newReport() (*round, uint64) {
	// Orders count their epochs from 1 up, reports from the other end.
	c.token++
	token := c.token | 1<<63
	r := newRound(token)
	c.reports[token] = r
	return r, token
}

// reported takes a process's answer to Report; false if it was not awaited.
func (c *Container) reported(p *process, token uint64, u gpu.Usage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.reports[token]
	if r == nil || r.over {
		return false
	}
	then, ok := r.waiting[p]
	if !ok {
		return false
	}
	p.most = then.with(p.grant, greater) // the process has read all frames sent before the question
	r.usage[p.pid] = u
	r.done.Processes++
	return r.leave(p)
}

// Running notifies the processes that a run begins or has ended. A begin ends an
// eviction under way. Memory that was moved out may come back with the run by
// itself, so from here on it counts as resident until it is moved again.
func (c *Container) Running(begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := uint64(0)
	if begins {
		running = 1
	}
	for _, p := range c.processes {
		p.send(encode(typeGate, 0, running))
	}
}

// Pinned returns the host memory that the container's processes keep pinned for device memory
// that moves, by their own counters.
func (c *Container) Pinned() int64 { return c.arena.pinned() }

// Processes returns how many processes of the container are connected. 0 for a
// container that runs GPU code means that its memory is not reported.
func (c *Container) Processes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.processes)
}
