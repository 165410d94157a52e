package containerd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/bridge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// launch creates and starts a container, and leaves nothing behind if that fails.
func (e *Engine) launch(ctx, work context.Context, spec container.Spec) (container.Handle, error) {
	work = e.in(work)
	image, err := e.image(work, spec)
	if err != nil {
		return container.Handle{}, fmt.Errorf("create container %s: %w", spec.Name, err)
	}
	if err := e.LookIfBlind(work); err != nil {
		return container.Handle{}, fmt.Errorf("create container %s: %w", spec.Name, err)
	}
	at, err := e.network.Take(ctx)
	if err != nil {
		return container.Handle{}, fmt.Errorf("create container %s: wait for a network namespace: %w", spec.Name, err)
	}
	b := build{spec: spec, image: image, place: at, id: newID()}
	b.dir = e.dirOf(b.id)
	e.Remember(container.ID(b.id))
	if err := e.start(ctx, work, b); err != nil {
		e.Forget(container.ID(b.id))
		if undo := e.remove(work, b.id, at.Path); undo != nil {
			e.log.Warn("remove container of a failed create, will try again", "container", spec.Name, "error", undo)
			e.Sweep(b.id)
		}
		return container.Handle{}, fmt.Errorf("start container %s: %w", spec.Name, err)
	}
	e.Tail(container.ID(b.id)) // its log is read from the beginning, rotated or not
	handle := container.Handle{ID: container.ID(b.id), Name: spec.Name, Addr: net.JoinHostPort(at.Address, proxyPort)}
	got, err := e.tasks().Get(work, &tasks.GetRequest{ContainerID: b.id})
	if err == nil && got.GetProcess().GetStatus() == tasktypes.Status_STOPPED {
		return handle, fmt.Errorf("start container %s: %w (exit code %d)", spec.Name, roster.ErrEnded, got.GetProcess().GetExitStatus())
	}
	return handle, nil
}

// build is a container that is being made.
type build struct {
	spec  container.Spec
	image client.Image
	place bridge.Place
	id    string
	dir   string // of its files and its log
}

func newID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

func (e *Engine) dirOf(id string) string { return filepath.Join(e.options.StateDir, id) }

func (e *Engine) start(ctx, work context.Context, b build) error {
	if err := e.writeFiles(b); err != nil {
		return err
	}
	labels, err := e.labels(b)
	if err != nil {
		return err
	}
	made, err := e.api.NewContainer(work, b.id,
		client.WithImage(b.image), client.WithImageStopSignal(b.image, "SIGTERM"),
		client.WithSnapshotter(e.options.Snapshotter), client.WithNewSnapshot(b.id, b.image),
		client.WithAdditionalContainerLabels(labels), client.WithNewSpec(e.ociSpec(b)...))
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err // the caller has given up: do not start it at all
	}
	task, err := made.NewTask(work, cio.BinaryIO(e.logProgram, map[string]string{
		logs.Command: strconv.FormatInt(e.options.MaxLogBytes, 10) + ":" + logPath(b.dir),
	}))
	if err == nil {
		err = task.Start(work)
	}
	return startError(err, b)
}

// startError recognises a missing program by the texts of runc. A missing file of a GPU
// or of a mount is not the author's fault.
func startError(err error, b build) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if b.spec.GPU != nil {
		for _, words := range []string{"nvidia", "CDI", "error mounting", "mounting"} {
			if strings.Contains(text, words) {
				return fmt.Errorf("mount into a GPU container, on the host of containerd: %w", err)
			}
		}
	}
	for _, words := range []string{"executable file not found", "no such file or directory"} {
		if strings.Contains(text, words) && strings.Contains(text, "exec") {
			return fmt.Errorf("%w: %w", roster.ErrNotInImage, err)
		}
	}
	return err
}

// image returns an image that is unpacked. Like `docker run`, it pulls an image that is
// not there.
func (e *Engine) image(ctx context.Context, spec container.Spec) (client.Image, error) {
	name, err := fullName(spec.Image)
	if err != nil {
		return nil, err
	}
	image, err := e.api.GetImage(ctx, name)
	if cerrdefs.IsNotFound(err) && !spec.Pull {
		if err := e.PullAside(ctx, spec.Image); err != nil {
			return nil, err
		}
		image, err = e.api.GetImage(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("find image %s: %w", name, err)
	}
	unpacked, err := image.IsUnpacked(ctx, e.options.Snapshotter)
	if err == nil && !unpacked {
		err = image.Unpack(ctx, e.options.Snapshotter)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack image %s: %w", name, err)
	}
	return image, nil
}

// fullName adds the registry and the tag that Docker takes if they are not given.
func fullName(image string) (string, error) {
	name, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", image, err)
	}
	return reference.TagNameOnly(name).String(), nil
}
