package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/bridge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// Labels of every container, beside those of all engines. The process that comes after this
// one reads them.
const (
	labelName    = "org.gpuwhisk.name"
	labelAddress = "org.gpuwhisk.address" // on the bridge
	labelNetwork = "org.gpuwhisk.network" // path of its network namespace
	labelImage   = "org.gpuwhisk.image"   // digest
)

func (e *Engine) labels(b build) (map[string]string, error) {
	labels := map[string]string{
		labelName: b.spec.Name, labelAddress: b.place.Address, labelNetwork: b.place.Path, labelImage: b.image.Target().Digest.String(),
	}
	return labels, e.label(labels, b.spec)
}

// label adds the labels of all engines.
func (e *Engine) label(labels map[string]string, spec container.Spec) error {
	sealed := spec
	sealed.Name = ""
	return roster.Label(labels, e.options.Prefix, spec, e.args, e.options.DNSServers, e.options.Snapshotter, e.options.MaxLogBytes, e.init, e.profile, sealed)
}

// list lists the containers whose names start with prefix.
func (e *Engine) list(ctx context.Context, prefix string) ([]container.Leftover, error) {
	ctx = e.in(ctx)
	found, err := search(ctx, e.api, prefix)
	if err != nil {
		return nil, err
	}
	states, err := e.states(ctx)
	if err != nil {
		return nil, err
	}
	var all []container.Leftover
	for _, c := range found {
		l := roster.Labelled(c.ID, c.Labels)
		l.Name, l.Image = c.Labels[labelName], c.Labels[labelImage]
		l.Paused = states[c.ID] == tasktypes.Status_PAUSED
		l.Alive = l.Paused || states[c.ID] == tasktypes.Status_RUNNING || states[c.ID] == tasktypes.Status_PAUSING
		if addr := c.Labels[labelAddress]; addr != "" {
			l.Addr = net.JoinHostPort(addr, proxyPort)
		}
		all = append(all, l)
	}
	return all, nil
}

// fit returns why a container is not as Create would make it, or nil.
func (e *Engine) fit(ctx context.Context, l container.Leftover, spec container.Spec) error {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.Inspect)
	defer cancel()
	labels := map[string]string{}
	if err := e.label(labels, spec); err != nil {
		return err
	}
	if labels[roster.LabelSeal] != l.Digest {
		return errors.New("it would be made with other settings now")
	}
	name, err := fullName(spec.Image)
	if err != nil {
		return err
	}
	image, err := e.api.GetImage(ctx, name)
	if err != nil {
		return fmt.Errorf("find image %s: %w", name, err)
	}
	if image.Target().Digest.String() != l.Image {
		return fmt.Errorf("image %s is another now", spec.Image)
	}
	return nil
}

// search lists the containers whose names start with prefix.
func search(ctx context.Context, api *client.Client, prefix string) ([]containers.Container, error) {
	all, err := api.ContainerService().List(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c containers.Container) bool {
		return c.Labels[roster.LabelInvoker] == "" || !strings.HasPrefix(c.Labels[labelName], prefix)
	}), nil
}

// states lists the states of the processes of all containers.
func (e *Engine) states(ctx context.Context) (map[string]tasktypes.Status, error) {
	got, err := e.tasks().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, err
	}
	states := map[string]tasktypes.Status{}
	for _, p := range got.Tasks {
		states[p.ID] = p.Status
	}
	return states, nil
}

// releaseUnused releases the network namespaces of this invoker that no container has.
func (e *Engine) releaseUnused(ctx context.Context) error {
	found, err := search(ctx, e.api, "")
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, c := range found {
		used[c.Labels[labelNetwork]] = true
	}
	if err := e.network.ReleaseExcept(used); err != nil {
		e.log.Warn("release the networks of containers that are gone", "error", err)
	}
	return nil
}

// RemoveNetwork removes the bridge of action containers, which must be gone.
func RemoveNetwork(o Options) error { return bridge.Remove(o.bridge()) }

// Clean removes the containers of the invoker whose containers' names start with prefix,
// with their networks, and returns how many there were. An empty prefix means all
// invokers; their bridge is removed, too.
func Clean(ctx context.Context, o Options, prefix string) (int, error) {
	api, err := connect(FindSocket(os.DirFS("/"), o.Socket))
	if err != nil {
		return 0, err
	}
	defer api.Close()
	ctx = namespaces.WithNamespace(ctx, Namespace)
	found, err := search(ctx, api, prefix)
	if err != nil {
		return 0, err
	}
	n, errs := 0, []error(nil)
	for _, c := range found {
		if _, err := destroy(ctx, api, c.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove container %s: %w", c.ID, err))
			continue
		}
		errs = append(errs, os.RemoveAll(filepath.Join(o.StateDir, c.ID)))
		n++
	}
	if prefix == "" {
		return n, errors.Join(append(errs, RemoveNetwork(o))...)
	}
	o.Prefix = prefix
	return n, errors.Join(append(errs, bridge.Clean(o.bridge()))...)
}
