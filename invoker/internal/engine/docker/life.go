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

// remove ends and deletes a container in any state.
func (e *Engine) remove(ctx context.Context, idOrName string) error {
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

// endedByKill is the exit code of a process that was ended by SIGKILL, by the kernel for
// its memory use or by any process.
const endedByKill = 128 + 9

// ended asks the daemon for the cause of a container's end. An unreadable state is no, as in
// OpenWhisk.
func (e *Engine) ended(ctx context.Context, id container.ID) (oom, killed bool) {
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
