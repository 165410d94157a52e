package containerd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/bridge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Pause freezes a container. A container that is frozen already is no error.
func (e *Engine) Pause(ctx context.Context, id container.ID) error {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.Pause)
	defer cancel()
	soon := retry.Backoff{Min: 50 * time.Millisecond, Max: 50 * time.Millisecond}
	err := retry.Do(ctx, soon, func() error {
		_, err := e.tasks().Pause(ctx, &tasks.PauseTaskRequest{ContainerID: string(id)})
		if err != nil && !strings.Contains(err.Error(), "unable to freeze") {
			return retry.Permanent(err)
		}
		// runc gives up when the processes have not all frozen within some ten
		// milliseconds, as on a busy machine.
		return err
	})
	return lifeError("pause", id, err, "cannot pause a paused", "cannot pause paused")
}

// Resume thaws a container. A container that runs is no error.
func (e *Engine) Resume(ctx context.Context, id container.ID) error {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.Unpause)
	defer cancel()
	_, err := e.tasks().Resume(ctx, &tasks.ResumeTaskRequest{ContainerID: string(id)})
	return lifeError("resume", id, err, "cannot resume a running")
}

// Resize lets a container use so many bytes of memory, and no swap.
func (e *Engine) Resize(ctx context.Context, id container.ID, bytes int64) error {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.Unpause)
	defer cancel()
	task, err := e.task(ctx, string(id))
	if err == nil {
		err = task.Update(ctx, client.WithResources(&specs.LinuxResources{Memory: e.cgroups.memory(bytes)}))
	}
	return lifeError("resize", id, err)
}

func (e *Engine) task(ctx context.Context, id string) (client.Task, error) {
	c, err := e.api.LoadContainer(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.Task(ctx, nil)
}

// lifeError translates the daemon's error. It returns ErrGone for a missing or stopped
// container. It returns nil if the error's text contains one of reached, which means that
// the container is in the wanted state already.
func lifeError(verb string, id container.ID, err error, reached ...string) error {
	if err == nil {
		return nil
	}
	for _, words := range reached {
		if strings.Contains(err.Error(), words) {
			return nil
		}
	}
	if cerrdefs.IsNotFound(err) || cerrdefs.IsNotFound(errgrpc.ToNative(err)) || strings.Contains(err.Error(), "stopped") || strings.Contains(err.Error(), "not running") {
		return fmt.Errorf("%s container %s: %w", verb, id, container.ErrGone)
	}
	return fmt.Errorf("%s container %s: %w", verb, id, err)
}

// remove removes a container with its files and its network namespace. The path of the
// namespace may be empty: then the container's record or its directory has it.
func (e *Engine) remove(ctx context.Context, id, path string) error {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.Remove)
	defer cancel()
	recorded, err := destroy(ctx, e.api, id)
	if path = cmp.Or(path, recorded); path == "" { // somebody else has removed the container
		text, _ := os.ReadFile(filepath.Join(e.dirOf(id), networkFile))
		path = string(text)
	}
	if err == nil {
		err = os.RemoveAll(e.dirOf(id))
	}
	if err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	if path == "" {
		return nil
	}
	// The caller need not wait for the network. A network that cannot be
	// released now is released at the next start.
	release := func() {
		if err := e.network.Release(bridge.Place{Path: path}); err != nil {
			e.log.Warn("release the network of a container", "container", id, "error", err)
		}
	}
	if !e.Spawn(release) {
		release()
	}
	return nil
}

// destroy ends a container's processes and deletes its records and files. It returns the
// path of its network namespace, "" if that is not known. A container that is gone is no error.
func destroy(ctx context.Context, api *client.Client, id string) (network string, err error) {
	c, err := api.LoadContainer(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	info, err := c.Info(ctx, client.WithoutRefreshedMetadata)
	if err != nil {
		return "", err
	}
	task, err := c.Task(ctx, nil)
	if err == nil {
		_, err = task.Delete(ctx, client.WithProcessKill)
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return "", err
	}
	if err := c.Delete(ctx, client.WithSnapshotCleanup); err != nil && !cerrdefs.IsNotFound(err) {
		return "", err
	}
	return info.Labels[labelNetwork], nil
}

// endedByKill is the exit code of a process that was ended by SIGKILL, by the kernel for
// its memory use or by any process.
const endedByKill = 128 + 9

// ended reports whether a container's first process was ended by SIGKILL. Only events tell
// that memory ran out.
func (e *Engine) ended(ctx context.Context, id container.ID) (oom, killed bool) {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.Inspect)
	defer cancel()
	got, err := e.tasks().Get(ctx, &tasks.GetRequest{ContainerID: string(id)})
	return false, err == nil && got.GetProcess().GetExitStatus() == endedByKill
}

// Processes lists the ids of a container's processes as the daemon's host has
// them, and the name space of processes that they are in, 0 if that cannot be read.
func (e *Engine) Processes(ctx context.Context, name string) (pids []int, space uint64, err error) {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.Inspect)
	defer cancel()
	found, err := search(ctx, e.api, name)
	if err != nil {
		return nil, 0, err
	}
	for _, c := range found {
		if c.Labels[labelName] != name {
			continue
		}
		got, err := e.tasks().ListPids(ctx, &tasks.ListPidsRequest{ContainerID: c.ID})
		if err != nil {
			return nil, 0, fmt.Errorf("list processes of container %s: %w", name, err)
		}
		for _, p := range got.Processes {
			pids = append(pids, int(p.Pid))
			if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.Pid)); err == nil {
				_, _ = fmt.Sscanf(link, "pid:[%d]", &space)
			}
		}
		return pids, space, nil
	}
	return nil, 0, fmt.Errorf("list processes of container %s: %w", name, container.ErrGone)
}
