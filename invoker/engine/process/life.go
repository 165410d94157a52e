package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/logs"
)

// pauseTime is how long the processes of a container may take to stop, stopPoll the
// longest pause between two checks of them.
const (
	pauseTime = 10 * time.Second
	stopPoll  = 20 * time.Millisecond
)

// endTime is how long a process that was killed may take to end.
const endTime = 30 * time.Second

// Pause stops a container's processes; Resume lets them go on.
func (e *Engine) Pause(ctx context.Context, id container.ID) error {
	c, err := e.halt(id, "pause", syscall.SIGSTOP)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pauseTime)
	defer cancel()
	for pause := time.Millisecond; !c.stopped(); pause = min(2*pause, stopPoll) {
		// The signal is only on its way. A process that waits for a child of its
		// which is to become another program does not stop before it has.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("pause process %s: it does not stop: %w", id, ctx.Err())
		}
	}
	return nil
}

// Resume lets a paused container go on.
func (e *Engine) Resume(_ context.Context, id container.ID) error {
	_, err := e.halt(id, "resume", syscall.SIGCONT)
	e.guard.wake()
	return err
}

func (e *Engine) halt(id container.ID, verb string, s syscall.Signal) (*child, error) {
	c := e.find(id)
	if c == nil {
		return nil, fmt.Errorf("%s process %s: %w", verb, id, container.ErrGone)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.signalLocked(s) {
		return nil, fmt.Errorf("%s process %s: %w", verb, id, container.ErrGone)
	}
	c.paused = s == syscall.SIGSTOP
	return c, nil
}

// Remove ends a container and deletes its files.
func (e *Engine) Remove(_ context.Context, id container.ID) error {
	e.mu.Lock()
	c := e.live[id]
	delete(e.live, id)
	e.mu.Unlock()
	if c == nil {
		return nil
	}
	return e.end(c)
}

// end does not wait for ever: a process that hangs in the kernel, on a file system
// that is gone for instance, is killed when it comes back. What it had is freed then.
func (e *Engine) end(c *child) error {
	c.mu.Lock()
	c.removed = true
	c.cancel()
	c.signalLocked(syscall.SIGKILL)
	c.mu.Unlock()
	freed := make(chan error, 1)
	go func() { freed <- e.free(c) }()
	select {
	case err := <-freed:
		return err
	case <-time.After(e.endTime):
		return fmt.Errorf("process %s was killed and does not end within %s: it hangs in the kernel", c.id, e.endTime)
	}
}

// free gives back what a container had, when its processes have ended.
func (e *Engine) free(c *child) error {
	c.wg.Wait()
	errs := []error{killByMarker(c.id), c.out.Close(), c.tail.Close()}
	if err := os.RemoveAll(c.dir); err != nil {
		errs = append(errs, fmt.Errorf("delete files of process %s: %w", c.id, err))
	}
	return errors.Join(errs...)
}

// OOMKilled reports whether the container was ended for its memory use. There is
// nothing to wait for: removed is set before the process is killed.
func (e *Engine) OOMKilled(_ context.Context, id container.ID) bool {
	c := e.find(id)
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.oom
}

// LogsReady reports whether Logs would return at once.
func (e *Engine) LogsReady(id container.ID, req container.LogRequest) bool {
	c := e.find(id)
	return c != nil && c.tail.Ready(req)
}

// Logs reads what a container printed since the last call for it.
func (e *Engine) Logs(ctx context.Context, id container.ID, req container.LogRequest) container.LogResult {
	c := e.find(id)
	if c == nil {
		return logs.Unreadable()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	return c.tail.Collect(ctx, req)
}

// CleanUp removes the containers whose name starts with prefix: this engine's,
// and those that an engine before it left in the state directory.
func (e *Engine) CleanUp(ctx context.Context, prefix string) error {
	var errs []error
	for _, c := range e.children() {
		if strings.HasPrefix(c.name, prefix) {
			errs = append(errs, e.Remove(ctx, c.id))
		}
	}
	entries, err := os.ReadDir(e.options.StateDir)
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("read state directory: %w", err))...)
	}
	for _, entry := range entries {
		id := container.ID(entry.Name())
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) || e.find(id) != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, fmt.Errorf("clean up processes: %w", err))...)
		}
		errs = append(errs, e.removeLeftover(id))
	}
	return errors.Join(errs...)
}
