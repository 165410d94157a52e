package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

const proxyPort = "8080" // where every action proxy listens (OpenWhisk, docs/actions-new.md)

// launch creates, starts and inspects a container. If it fails it leaves nothing behind,
// except a container that ended at once, whose log the caller may read. launch tries again
// if somebody has removed the invoker's network, or if the daemon misses its init program.
func (e *Engine) launch(ctx, work context.Context, spec container.Spec) (container.Handle, error) {
	handle, err := e.launchOnce(ctx, work, spec)
	if errors.Is(err, errNoInit) && e.leaveOutInit(err) {
		handle, err = e.launchOnce(ctx, work, spec)
	}
	if errors.Is(err, errNoNetwork) {
		if remakeErr := e.remakeNetwork(work); remakeErr != nil {
			return container.Handle{}, errors.Join(err, remakeErr)
		}
		handle, err = e.launchOnce(ctx, work, spec)
	}
	if err == nil {
		e.tryIsolation()
	}
	return handle, err
}

func (e *Engine) launchOnce(ctx, work context.Context, spec container.Spec) (container.Handle, error) {
	inits := e.inits(spec)
	id, err := e.createImageToo(work, spec)
	if e.networkGone(err) { // nothing was made
		return container.Handle{}, fmt.Errorf("%w: %w", errNoNetwork, err)
	}
	if inits && e.initMissing(err) { // nothing was made
		return container.Handle{}, fmt.Errorf("%w: %w", errNoInit, err)
	}
	if err != nil {
		if !rejected(err) {
			e.Discard(spec.Name) // it may have been made all the same
		}
		return container.Handle{}, fmt.Errorf("create container %s: %w", spec.Name, err)
	}
	e.Remember(id)
	inspected, err := e.start(ctx, work, id)
	if inits && e.initMissing(err) {
		// Without roster.ErrNotInImage: the image is not to blame.
		err = e.withdraw(work, id, fmt.Errorf("%w: %s", errNoInit, err))
	}
	if e.networkGone(err) {
		err = e.withdraw(work, id, fmt.Errorf("%w: %w", errNoNetwork, err))
	}
	if spec.GPU != nil {
		err = deviceError(err)
	}
	var addr string
	if err == nil {
		e.Tail(id) // its log is read from the beginning, rotated or not
		addr, err = address(inspected, e.options.Network)
	}
	handle := container.Handle{ID: id, Name: spec.Name, Addr: addr}
	if err == nil {
		return handle, nil
	}
	switch {
	case errors.Is(err, roster.ErrEnded):
	case errors.Is(err, errNoNetwork), errors.Is(err, errNoInit): // it is removed
		e.Forget(id)
		handle = container.Handle{}
	default:
		e.Discard(string(id))
		handle = container.Handle{}
	}
	return handle, fmt.Errorf("start container %s: %w", spec.Name, err)
}

// rejected reports that the daemon has refused, so that nothing was made. After no
// answer, half of one, or a fault of the daemon's own there may be a container.
func rejected(err error) bool {
	return cerrdefs.IsInvalidArgument(err) || cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) ||
		cerrdefs.IsUnauthorized(err) || cerrdefs.IsPermissionDenied(err)
}

// withdraw removes a container that will be made again under the same name, and returns
// the reason. If that fails, the error has its text only, so that nothing is repeated.
func (e *Engine) withdraw(ctx context.Context, id container.ID, reason error) error {
	if err := e.remove(ctx, string(id)); err != nil {
		return errors.Join(errors.New(reason.Error()), err)
	}
	return reason
}

// createImageToo creates a container. Like `docker run`, it pulls a missing image.
func (e *Engine) createImageToo(ctx context.Context, spec container.Spec) (container.ID, error) {
	id, err := e.createOnce(ctx, spec)
	if !spec.Pull && cerrdefs.IsNotFound(err) && strings.Contains(strings.ToLower(err.Error()), "no such image") {
		if pullErr := e.PullAside(ctx, spec.Image); pullErr != nil {
			return "", errors.Join(err, pullErr)
		}
		id, err = e.createOnce(ctx, spec)
	}
	return id, err
}

func (e *Engine) createOnce(ctx context.Context, spec container.Spec) (container.ID, error) {
	request, err := e.request(ctx, spec)
	if err != nil {
		return "", err
	}
	made, err := e.api.ContainerCreate(ctx, request)
	if err != nil {
		return "", mountError(err)
	}
	return container.ID(made.ID), nil
}

// mountError names the host on which a path is missing: the daemon's own, which an
// invoker in a container does not see.
func mountError(err error) error {
	if strings.Contains(err.Error(), "bind source path does not exist") {
		return fmt.Errorf("mount into a GPU container, on the host of the Docker daemon: %w", err)
	}
	return err
}

func (e *Engine) start(ctx, work context.Context, id container.ID) (api.InspectResponse, error) {
	if err := ctx.Err(); err != nil {
		return api.InspectResponse{}, err // the caller has given up: do not start it at all
	}
	if err := e.LookIfBlind(work); err != nil {
		return api.InspectResponse{}, err
	}
	if _, err := e.api.ContainerStart(work, string(id), client.ContainerStartOptions{}); err != nil {
		return api.InspectResponse{}, startError(err)
	}
	work, cancel := roster.Limited(work, e.options.Timeouts.Inspect)
	defer cancel()
	result, err := e.api.ContainerInspect(work, string(id), client.ContainerInspectOptions{})
	if err != nil {
		return api.InspectResponse{}, fmt.Errorf("inspect: %w", err)
	}
	return result.Container, nil
}

// startError recognises a missing program by the texts that the Docker CLI
// uses (cli/command/container, toStatusError).
func startError(err error) error {
	text := err.Error()
	for _, words := range []string{"executable file not found", "no such file or directory", "system cannot find the file specified"} {
		if strings.Contains(text, words) {
			return fmt.Errorf("%w: %w", roster.ErrNotInImage, err)
		}
	}
	return err
}

// deviceError takes the blame off a GPU container's author where the daemon
// misses a file of the device or of a mount, and not the program.
func deviceError(err error) error {
	if !errors.Is(err, roster.ErrNotInImage) {
		return err
	}
	for _, words := range []string{"nvidia", "CDI", "error mounting"} {
		if strings.Contains(err.Error(), words) {
			return errors.New("give the container its device: " + err.Error()) // without roster.ErrNotInImage
		}
	}
	return err
}

// proxyAddress is host and port of a container's proxy in a network, empty if it has
// no address there.
func proxyAddress(networks map[string]*network.EndpointSettings, name string) string {
	end := networks[name]
	if end == nil && len(networks) == 1 { // the daemon's name for "default"
		for _, only := range networks {
			end = only
		}
	}
	switch {
	case end == nil:
	case end.IPAddress.IsValid():
		return net.JoinHostPort(end.IPAddress.String(), proxyPort)
	case end.GlobalIPv6Address.IsValid():
		return net.JoinHostPort(end.GlobalIPv6Address.String(), proxyPort)
	}
	return ""
}

// address is where the proxy of a started container listens.
func address(c api.InspectResponse, network string) (string, error) {
	if c.NetworkSettings != nil {
		if addr := proxyAddress(c.NetworkSettings.Networks, network); addr != "" {
			return addr, nil
		}
	}
	state := "unknown"
	if c.State != nil {
		state = fmt.Sprintf("%s, exit code %d", c.State.Status, c.State.ExitCode)
	}
	err := fmt.Errorf("container has no IP address in network %q (state: %s)", network, state)
	if c.State != nil && (c.State.Status == api.StateExited || c.State.Status == api.StateDead) {
		return "", fmt.Errorf("%w: %w", roster.ErrEnded, err)
	}
	return "", err
}
