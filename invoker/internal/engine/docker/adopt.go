package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// Labels of every container. By the first an operator finds the containers of an
// invoker; the next process of the invoker reads the others.
const (
	labelInvoker = "org.gpuwhisk.invoker" // the head of its containers' names, such as wsk00
	labelMemory  = "org.gpuwhisk.memory"  // MiB
	labelSeal    = "org.gpuwhisk.seal"
)

// sealVersion is a part of every seal. It changes when containers of older
// versions must not be adopted.
const sealVersion = 1

// label labels a container with its invoker and with a digest of all that it is
// made with, its name aside.
func (p hostPart) label(config *api.Config, host api.HostConfig, spec container.Spec) error {
	build := ""
	if spec.GPU != nil {
		build = spec.GPU.Build
	}
	text, err := json.Marshal([]any{sealVersion, config, host, build})
	if err != nil {
		return fmt.Errorf("seal container %s: %w", spec.Name, err)
	}
	sum := sha256.Sum256(text)
	config.Labels = maps.Clone(config.Labels)
	if config.Labels == nil {
		config.Labels = map[string]string{}
	}
	config.Labels[labelInvoker] = p.whose
	config.Labels[labelMemory] = strconv.Itoa(spec.MemoryMB)
	config.Labels[labelSeal] = hex.EncodeToString(sum[:16])
	return nil
}

// Leftovers lists the containers whose names start with prefix.
func (e *Engine) Leftovers(ctx context.Context, prefix string) ([]container.Leftover, error) {
	found, err := e.search(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var all []container.Leftover
	for _, c := range found {
		memory, _ := strconv.Atoi(c.Labels[labelMemory]) // 0 where there is none
		l := container.Leftover{
			ID: container.ID(c.ID), Name: nameWith(c, prefix), Image: c.ImageID, MemoryMB: memory, Digest: c.Labels[labelSeal],
			Alive: alive(c), Paused: c.State == api.StatePaused,
		}
		if c.NetworkSettings != nil {
			l.Addr = proxyAddress(c.NetworkSettings.Networks, e.options.Network)
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b container.Leftover) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Adopt adopts containers that another process has made. It returns an error for each
// that Create would make in another way now, or that is gone. From now on the deaths of
// adopted containers are reported, and their output is read.
func (e *Engine) Adopt(ctx context.Context, lefts []container.Leftover, specs []container.Spec) []error {
	images := map[string]string{}
	errs := e.roster.Adopt(ctx, lefts, func(i int) error { return e.fit(ctx, lefts[i], specs[i], images) })
	// A container that ended since the list is reported as any other death.
	if err := e.reconcile(ctx); err != nil {
		e.log.Warn("check containers that were adopted", "error", err)
	}
	return errs
}

// fit returns why a container is not as Create would make it, or nil.
func (e *Engine) fit(ctx context.Context, l container.Leftover, spec container.Spec, images map[string]string) error {
	request, err := e.request(ctx, spec)
	if err != nil {
		return err
	}
	if request.Config.Labels[labelSeal] != l.Digest {
		return errors.New("it would be made with other settings now")
	}
	id, known := images[spec.Image]
	if !known {
		inspected, err := e.api.ImageInspect(ctx, spec.Image)
		if err != nil {
			return fmt.Errorf("inspect image %s: %w", spec.Image, err)
		}
		id = inspected.ID
		images[spec.Image] = id
	}
	if id != l.Image {
		return fmt.Errorf("image %s is another now", spec.Image)
	}
	return nil
}

// search gives the containers whose names start with prefix. The daemon's name
// filter is a pattern that may match in the middle, so it is checked again.
func (e *Engine) search(ctx context.Context, prefix string) ([]api.Summary, error) {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.List)
	defer cancel()
	result, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("name", "^/?"+regexp.QuoteMeta(prefix))})
	if err != nil {
		return nil, fmt.Errorf("list containers %s*: %w", prefix, err)
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

func alive(c api.Summary) bool { return c.State == api.StateRunning || c.State == api.StatePaused }

// Clean removes the containers of the invoker whose containers' names start with
// prefix, and reports how many there were. An empty prefix means all invokers; their
// network is removed, too, unless it was made by hand.
func (d *Daemon) Clean(ctx context.Context, prefix string) (int, error) {
	label := labelInvoker
	if prefix != "" {
		label += "=" + strings.TrimSuffix(prefix, "_")
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
