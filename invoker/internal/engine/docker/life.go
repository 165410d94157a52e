package docker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// soon returns the pauses between two tries of a request that the daemon cannot serve yet.
func soon() retry.Backoff {
	return retry.Backoff{Min: 50 * time.Millisecond, Max: 50 * time.Millisecond}
}

// Pause freezes a container. A container that is frozen already is no error.
func (e *Engine) Pause(ctx context.Context, id container.ID) error {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Pause)
	defer cancel()
	err := retry.Do(ctx, soon(), func() error {
		_, err := e.api.ContainerPause(ctx, string(id), client.ContainerPauseOptions{})
		if err != nil && !strings.Contains(err.Error(), "unable to freeze") {
			return retry.Permanent(err)
		}
		// runc thaws the container and gives up when its processes have not
		// all frozen within some ten milliseconds, as on a busy machine.
		return err
	})
	return lifeError("pause", id, err, "already paused")
}

// Resume thaws a container. A container that runs is no error.
func (e *Engine) Resume(ctx context.Context, id container.ID) error {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Unpause)
	defer cancel()
	_, err := e.api.ContainerUnpause(ctx, string(id), client.ContainerUnpauseOptions{})
	return lifeError("resume", id, err, "is not paused")
}

// Resize lets a container use so many bytes of memory, and no swap.
func (e *Engine) Resize(ctx context.Context, id container.ID, bytes int64) error {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Unpause)
	defer cancel()
	_, err := e.api.ContainerUpdate(ctx, string(id), client.ContainerUpdateOptions{
		Resources: &api.Resources{Memory: bytes, MemorySwap: bytes},
	})
	return lifeError("resize", id, err, "")
}

// lifeError translates the daemon's answer. A container that has stopped is as good as
// gone. An answer that the container is in the wanted state already is no error.
func lifeError(verb string, id container.ID, err error, reached string) error {
	switch {
	case err == nil:
		return nil
	case noContainer(err), strings.Contains(err.Error(), "is not running"):
		return fmt.Errorf("%s container %s: %w", verb, id, container.ErrGone)
	case reached != "" && strings.Contains(err.Error(), reached):
		return nil
	}
	if cerrdefs.IsNotFound(err) {
		return fmt.Errorf("%s container %s: the engine, or a proxy before it, does not serve this request: %w (whisk.gpu.docker.host)", verb, id, err)
	}
	return fmt.Errorf("%s container %s: %w", verb, id, err)
}

// noContainer reports whether the daemon says that a container does not exist. A path that
// an engine or a proxy before it does not serve is answered with 404, too.
func noContainer(err error) bool {
	return cerrdefs.IsNotFound(err) && strings.Contains(strings.ToLower(err.Error()), "container")
}

// Remove ends and deletes a container in any state. If that fails it is tried
// again, and once more when a daemon that was away is back.
func (e *Engine) Remove(ctx context.Context, id container.ID) error {
	return e.roster.Remove(ctx, id)
}

func (e *Engine) removeOnce(ctx context.Context, idOrName string) error {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Remove)
	defer cancel()
	err := retry.Do(ctx, soon(), func() error {
		_, err := e.api.ContainerRemove(ctx, idOrName, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil, noContainer(err):
			return nil
		case strings.Contains(err.Error(), "already in progress"): // another caller has begun it
			return err
		}
		return retry.Permanent(err)
	})
	if err != nil {
		return fmt.Errorf("remove container %s: %w", idOrName, err)
	}
	return nil
}

// CleanUp removes every container whose name starts with prefix, in whatever
// state it is. It goes on past failures and names them all.
func (e *Engine) CleanUp(ctx context.Context, prefix string) error {
	found, err := e.search(ctx, prefix)
	if err != nil {
		return err
	}
	ids := make([]container.ID, len(found))
	for i, c := range found {
		ids[i] = container.ID(c.ID)
	}
	return e.roster.RemoveAll(ctx, ids)
}

// OOMKilled reports whether the kernel ended the container, or a process in it,
// for its memory use. A container that still seems to run gets a moment to
// end: the proxy's connection breaks some ten milliseconds before the daemon
// notices why.
func (e *Engine) OOMKilled(ctx context.Context, id container.ID) bool {
	k := e.roster.Find(id)
	if k == nil {
		killed, _ := e.inspectOOM(ctx, id)
		return killed
	}
	if k.OOMBefore(ctx, k.Ended(), e.options.Timeouts.Settle) {
		return true
	}
	killed, bySignal := e.inspectOOM(ctx, id)
	if killed || !bySignal {
		return killed
	}
	// The kernel reports its memory use and its end to the daemon by two ways, and
	// the report on memory may be the later.
	if k.OOMBefore(ctx, nil, min(lateOOM, e.options.Timeouts.Settle)) {
		return true
	}
	killed, _ = e.inspectOOM(ctx, id)
	return killed
}

// lateOOM is how much later than a container's end the daemon may notice that it
// was for its memory use.
const lateOOM = time.Second

// endedByKill is the exit code of a process that was ended by SIGKILL, by the kernel for
// its memory use or by any process.
const endedByKill = 128 + 9

// inspectOOM asks the daemon, and returns also whether the container was ended by
// SIGKILL. An unreadable state is no, as in OpenWhisk.
func (e *Engine) inspectOOM(ctx context.Context, id container.ID) (killed, bySignal bool) {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Inspect)
	defer cancel()
	result, err := e.api.ContainerInspect(ctx, string(id), client.ContainerInspectOptions{})
	if err != nil || result.Container.State == nil {
		return false, false
	}
	s := result.Container.State
	return s.OOMKilled, !s.Running && s.ExitCode == endedByKill
}

// Processes lists the ids of a container's processes as the daemon's host has
// them, and the name space of processes that they are in; 0 where the host's ps
// cannot report that. A process on that host sees both in /proc; this is for an
// invoker in a container there.
func (e *Engine) Processes(ctx context.Context, name string) (pids []int, space uint64, err error) {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Inspect)
	defer cancel()
	top, err := e.api.ContainerTop(ctx, name, client.ContainerTopOptions{Arguments: []string{"-eo", "pid,pidns"}})
	if err != nil { // some ps know no name spaces
		top, err = e.api.ContainerTop(ctx, name, client.ContainerTopOptions{Arguments: []string{"-eo", "pid"}})
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list processes of container %s: %w", name, err)
	}
	at, of := slices.Index(top.Titles, "PID"), slices.Index(top.Titles, "PIDNS")
	for _, row := range top.Processes {
		if at < 0 || at >= len(row) {
			continue
		}
		if pid, err := strconv.Atoi(row[at]); err == nil {
			pids = append(pids, pid)
		}
		if of >= 0 && of < len(row) && space == 0 {
			space, _ = strconv.ParseUint(row[of], 10, 64)
		}
	}
	return pids, space, nil
}
