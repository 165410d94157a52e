package docker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// list lists the containers whose names start with prefix.
func (e *Engine) list(ctx context.Context, prefix string) ([]container.Leftover, error) {
	found, err := e.search(ctx, prefix)
	var all []container.Leftover
	for _, c := range found {
		l := roster.Labelled(c.ID, c.Labels)
		l.Name, l.Image = nameWith(c, prefix), c.ImageID
		l.Paused = c.State == api.StatePaused
		l.Alive = l.Paused || c.State == api.StateRunning
		if c.NetworkSettings != nil {
			l.Addr = proxyAddress(c.NetworkSettings.Networks, e.options.Network)
		}
		all = append(all, l)
	}
	return all, err
}

// fit returns why a container is not as Create would make it, or nil.
func (e *Engine) fit(ctx context.Context, l container.Leftover, spec container.Spec) error {
	request, err := e.request(ctx, spec)
	if err != nil {
		return err
	}
	if request.Config.Labels[roster.LabelSeal] != l.Digest {
		return errors.New("it would be made with other settings now")
	}
	image, err := e.api.ImageInspect(ctx, spec.Image)
	if err != nil {
		return fmt.Errorf("inspect image %s: %w", spec.Image, err)
	}
	if image.ID != l.Image {
		return fmt.Errorf("image %s is another now", spec.Image)
	}
	return nil
}

// search gives the containers whose names start with prefix. The daemon's name
// filter is a pattern that may match in the middle, so it is checked again.
func (e *Engine) search(ctx context.Context, prefix string) ([]api.Summary, error) {
	result, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("name", "^/?"+regexp.QuoteMeta(prefix))})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(result.Items, func(c api.Summary) bool { return nameWith(c, prefix) == "" }), nil
}

// nameWith gives the name of a container that starts with prefix.
func nameWith(c api.Summary, prefix string) string {
	for _, name := range c.Names {
		if name = strings.TrimPrefix(name, "/"); strings.HasPrefix(name, prefix) {
			return name
		}
	}
	return ""
}

// Clean removes the containers of the invoker whose containers' names start with
// prefix, and reports how many there were. An empty prefix means all invokers; their
// network is removed, too, unless it was made by hand.
func (d *Daemon) Clean(ctx context.Context, prefix string) (int, error) {
	label := roster.LabelInvoker
	if prefix != "" {
		label += "=" + roster.Invoker(prefix)
	}
	found, err := d.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", label)})
	if err != nil {
		return 0, fmt.Errorf("list containers with label %s: %w", label, err)
	}
	n, errs := 0, []error(nil)
	for _, c := range found.Items {
		_, err := d.api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove container %s: %w", c.ID, err))
			continue
		}
		n++
	}
	if prefix == "" {
		errs = append(errs, removeNetwork(ctx, d.api))
	}
	return n, errors.Join(errs...)
}
