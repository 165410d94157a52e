package shimctl

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Container is the socket of one container and the processes connected to it.
// It is safe for concurrent use.
type Container struct {
	id       string
	dir      string
	ctl      *Control
	listener *net.UnixListener
	work     sync.WaitGroup

	mu           sync.Mutex
	processes    map[int]*process // connected, by process id
	disconnected map[int]*process // whose process has not ended
	conns        int              // connections whose goroutines run
	order        *round           // the order under way
	reports      map[uint64]*round
	token        uint64 // of the last report requested
	limited      bool   // limit was set
	limit        limits // of all processes together
	grant        limits // limits for the processes without a call of Events.Wants
	questions    []question
	arena        arena
	frames       rateLimit // of all processes together
	closed       bool

	accepts rateLimit // only accept uses it
	refused retry.LogLimit
}

func (c *Control) listen(id, dir string) (*Container, error) {
	// Any user of the container must pass this directory through
	// its mount. On the host the directory above is closed to others.
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make shim directory of %s: %w", id, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open shim directory of %s to its container: %w", id, err)
	}
	path := filepath.Join(dir, SocketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old shim socket of %s: %w", id, err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open shim socket of %s: %w", id, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("open shim socket of %s to its container: %w", id, err), listener.Close())
	}
	ct := &Container{
		id: id, dir: dir, ctl: c, listener: listener, processes: map[int]*process{},
		disconnected: map[int]*process{}, reports: map[uint64]*round{},
		frames:  rateLimit{left: frameBurst, at: time.Now(), perSecond: framesPerSecond, burst: frameBurst},
		accepts: rateLimit{left: acceptBurst, at: time.Now(), perSecond: acceptsPerSecond, burst: acceptBurst},
	}
	ct.work.Go(ct.accept)
	return ct, nil
}

// Dir is the directory to be mounted into the container.
func (c *Container) Dir() string { return c.dir }

// Socket is the path of the socket on this side of the mount.
func (c *Container) Socket() string { return filepath.Join(c.dir, SocketName) }

// accept takes connections until the container is closed.
func (c *Container) accept() {
	for {
		conn, err := c.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, most likely: this container cannot be served
			// now. Its shim tries again as long as the socket exists.
			c.ctl.log.Warn("shim connection not accepted", "container", c.id, "error", err)
			if !retry.SleepUnless(c.ctl.stop, time.Second) {
				return
			}
			continue
		}
		c.admit(conn)
		// A container's few processes connect with pauses. Faster connections wait in
		// the socket's queue, which costs nothing, and delay no other container:
		// each has a socket of its own.
		if wait := c.accepts.next(time.Now()); wait > 0 && !retry.SleepUnless(c.ctl.stop, wait) {
			return
		}
	}
}

// A shim that is not connected tries again after 20 ms at first, and later every two
// seconds. The burst is for a program that starts many processes at once.
const (
	acceptsPerSecond = 20
	acceptBurst      = 2 * DefaultProcesses
)

// refuse logs connections that were not taken.
func (c *Container) refuse(err error) {
	c.refused.Log(c.ctl.log, slog.LevelWarn, "shim connection refused", "container", c.id, "error", err)
}

// admit starts a connection's goroutines, or refuses it.
func (c *Container) admit(conn *net.UnixConn) {
	pid, err := peer(conn)
	// To examine a process costs more than to refuse it.
	if err == nil && c.full() {
		err = c.tooMany()
	}
	if err == nil && pid > 0 && c.ctl.cfg.Owns != nil && !c.ctl.cfg.Owns(c.id, pid) {
		err = fmt.Errorf("process %d is not of this container", pid)
	}
	c.serve(conn, pid, err)
}

// serve starts the goroutines of a process's connection, unless an error refuses it.
func (c *Container) serve(conn *net.UnixConn, pid int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || c.closed {
		if err != nil && !c.closed {
			c.refuse(err)
		}
		_ = conn.Close()
		return
	}
	c.conns++
	p := &process{
		pid: pid, conn: conn, container: c, pidfd: watch(conn, pid),
		out: make(chan []byte, outQueue), lastFrame: time.Now(), gone: make(chan struct{}),
	}
	c.work.Go(p.read)
	c.work.Go(p.write)
}

func (c *Container) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conns >= c.ctl.cfg.Processes
}

// joined adds a process that has sent hello to the container. An earlier connection with the
// same process id is closed, because exec replaced its process or the connection was lost. A
// process that only hung up still counts: it is watched until it has ended.
func (c *Container) joined(p *process) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, lost := c.processes[p.pid], c.disconnected[p.pid]
	if old == nil && lost == nil && len(c.processes)+len(c.disconnected) >= c.ctl.cfg.Processes {
		return c.tooMany()
	}
	if old != nil {
		old.hangUp()
	}
	if lost != nil {
		lost.pidfd.release()
		delete(c.disconnected, p.pid)
		old = lost
	}
	c.processes[p.pid] = p
	// The limit first: a program allocates as soon as there was a hello.
	c.enters(p, old)
	if p.backend == backendVMM {
		if err := c.arena.admit(p.pid, p.conn); err != nil {
			c.ctl.log.Warn("a process keeps its swapped memory itself", "container", c.id, "error", err)
		}
	}
	p.send(encode(typeHello, 0, version, uint64(c.ctl.cfg.Threshold)))
	if old != nil {
		c.resume(old, p)
	}
	return nil
}

func (c *Container) tooMany() error { return fmt.Errorf("more than %d processes", c.ctl.cfg.Processes) }

// left handles a connection's end. ended: the process has ended, too.
func (c *Container) left(p *process, ended bool) {
	c.mu.Lock()
	c.conns--
	c.dropQuestions(p)
	current := c.processes[p.pid] == p
	if current {
		delete(c.processes, p.pid)
	}
	closed := c.closed
	keep := current && !ended && !closed
	switch {
	case keep:
		c.disconnected[p.pid] = p
		c.leaveReports(p)
	case current:
		c.leaveRounds(p)
	}
	c.mu.Unlock()
	if !keep {
		p.pidfd.release()
	}
	if current && ended && !closed {
		c.exited(p)
	}
}

// exited frees the swapped memory of a process that has ended, reports the end, and then
// divides the memory of the process among the others.
func (c *Container) exited(p *process) {
	// Without a watch a hang-up counts as the end, but the process may still use its memory.
	if p.pidfd.watches() {
		if err := c.arena.release(p.pid); err != nil {
			c.ctl.log.Warn("swapped memory not freed", "container", c.id, "error", err)
		}
	}
	c.ctl.events.Exited(c.id, p.pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.share()
}

// leaveRounds removes a process from every round that waits for the process. The caller must
// hold mu.
func (c *Container) leaveRounds(p *process) {
	if c.order != nil {
		c.order.leave(p)
	}
	c.leaveReports(p)
}

// leaveReports takes a process out of the rounds of reports. The
// caller holds mu.
func (c *Container) leaveReports(p *process) {
	for _, r := range c.reports {
		r.leave(p)
	}
}

// resume gives an order that a process has not answered to its next connection. A
// connection that broke is no answer: the memory is where it was. The caller holds
// mu.
func (c *Container) resume(old, p *process) {
	c.leaveReports(old)
	if r := c.order; r != nil && !r.over {
		if _, ok := r.waiting[old]; ok {
			delete(r.waiting, old)
			r.wait(p)
			p.send(r.frame)
		}
	}
}

// ping sends a ping to every process. It finds the processes that became silent, and the
// disconnected processes that have ended.
func (c *Container) ping(now time.Time) {
	c.mu.Lock()
	var nowSilent []*process
	for _, p := range c.processes {
		p.send(encode(typePing, 0))
		if !p.silent && now.Sub(p.lastFrame) > c.ctl.cfg.Silence {
			p.silent = true
			nowSilent = append(nowSilent, p)
		}
	}
	var ended []*process
	for pid, p := range c.disconnected {
		if p.pidfd.ended(0) {
			p.pidfd.release()
			delete(c.disconnected, pid)
			c.leaveRounds(p)
			ended = append(ended, p)
		}
	}
	c.mu.Unlock()
	for _, p := range nowSilent {
		c.ctl.events.Silent(c.id, p.pid, true)
	}
	for _, p := range ended {
		c.exited(p)
	}
}

// alive records that a process sent a frame.
func (c *Container) alive(p *process) {
	c.mu.Lock()
	p.lastFrame = time.Now()
	wasSilent := p.silent
	p.silent = false
	c.mu.Unlock()
	if wasSilent {
		c.ctl.events.Silent(c.id, p.pid, false)
	}
}

// maxBytes bounds a size of memory on device and host together: far above any
// host, far below where sums over processes overflow.
const maxBytes = 1 << 48

// bounded caps a process' report at the possible values.
func (c *Container) bounded(f usageFrame) gpu.Usage {
	allocated := capped(f.Allocated, maxBytes)
	plain := allocated - min(capped(f.Managed, maxBytes), allocated)
	return gpu.Usage{
		Allocated: allocated,
		Resident:  min(capped(f.Resident, c.ctl.cfg.MaxResident), allocated),
		Plain:     plain,
		Out:       plain - min(capped(f.Listed, maxBytes), plain),
		Context:   int64(min(f.Contexts, 16)) * c.ctl.cfg.Context, // a device has few of one process
		Pinned:    capped(f.Pinned, maxBytes),
	}
}

// Close ends the connections of the container and removes its directory: the
// container is gone. Its processes' usage is void; no event reports it.
func (c *Container) Close() error {
	return errors.Join(c.Leave(), os.RemoveAll(c.dir))
}

// Leave ends the connections of the container and leaves its directory: its processes
// find the next Control there.
func (c *Container) Leave() error {
	err := c.shut()
	c.ctl.mu.Lock()
	if c.ctl.containers[c.id] == c {
		delete(c.ctl.containers, c.id)
	}
	c.ctl.mu.Unlock()
	return err
}

// shut ends everything but leaves the directory.
func (c *Container) shut() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	for _, p := range c.processes {
		p.hangUp()
		p.pidfd.release() // its end is not waited for any more
	}
	for pid, p := range c.disconnected {
		p.pidfd.release()
		delete(c.disconnected, pid)
	}
	if c.order != nil {
		c.order.end(ErrClosed)
	}
	for _, r := range c.reports {
		r.end(ErrClosed)
	}
	c.mu.Unlock()
	err := c.listener.Close()
	c.work.Wait()
	c.arena.close()
	return err
}
