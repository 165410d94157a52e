package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// pauseTime limits the time for the processes of a container to stop. stopPoll is the
// longest pause between two checks.
const (
	pauseTime = 10 * time.Second
	stopPoll  = 20 * time.Millisecond
)

// endTime is how long a killed process may take to end.
const endTime = 30 * time.Second

// Pause stops the processes of a container. Resume continues them.
func (e *Engine) Pause(ctx context.Context, id container.ID) error {
	c, err := e.halt(id, "pause", syscall.SIGSTOP)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pauseTime)
	defer cancel()
	for pause := time.Millisecond; !c.stopped(); pause = min(2*pause, stopPoll) {
		// The signal may not have arrived yet. A vfork parent does not stop until its
		// child has called exec.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("pause process %s: it does not stop: %w", id, ctx.Err())
		}
	}
	return nil
}

// Resume continues a paused container.
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

// end kills a container and frees its resources. It does not wait forever: a process
// that hangs in the kernel, for example on an unreachable file system, dies when the
// call returns. Its resources are freed then.
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

// free frees the resources of a container after its processes have ended.
func (e *Engine) free(c *child) error {
	c.wg.Wait()
	errs := []error{killByMarker(c.id), c.output.Close(), c.tail.Close()}
	if err := os.RemoveAll(c.dir); err != nil {
		errs = append(errs, fmt.Errorf("delete files of process %s: %w", c.id, err))
	}
	return errors.Join(errs...)
}

// OOMKilled reports whether the container was killed because of its memory use. It never
// waits, because the flag is set before the kill.
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

// Logs returns the output of a container since the last call.
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

// CleanUp removes the containers whose name starts with prefix: those of this engine,
// and those that an earlier engine left in the state directory.
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
