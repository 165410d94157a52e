package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// Labels of every container. By the first an operator finds what belongs to an
// invoker; the others are read by the process that comes after this one.
const (
	labelInvoker = "org.gpuwhisk.invoker" // the head of its containers' names, such as wsk00
	labelName    = "org.gpuwhisk.name"
	labelMemory  = "org.gpuwhisk.memory"  // MiB
	labelAddress = "org.gpuwhisk.address" // on the bridge
	labelNetwork = "org.gpuwhisk.network" // path of its network namespace
	labelImage   = "org.gpuwhisk.image"   // digest
	labelSeal    = "org.gpuwhisk.seal"
)

// sealVersion is a part of every seal. It changes when containers of older
// versions must not be adopted.
const sealVersion = 1

func (e *Engine) labels(b build) (map[string]string, error) {
	seal, err := e.seal(b.spec)
	return map[string]string{
		labelInvoker: strings.TrimSuffix(e.options.Prefix, "_"), labelName: b.spec.Name,
		labelMemory: strconv.Itoa(b.spec.MemoryMB), labelAddress: b.place.Address, labelNetwork: b.place.Path,
		labelImage: b.image.Target().Digest.String(), labelSeal: seal,
	}, err
}

// seal returns a digest of all that a container is made with, its name aside.
func (e *Engine) seal(spec container.Spec) (string, error) {
	spec.Name = ""
	text, err := json.Marshal([]any{sealVersion, e.args, e.options.DNSServers, e.options.Snapshotter, e.options.MaxLogBytes, e.init, e.profile, spec})
	if err != nil {
		return "", fmt.Errorf("seal a container: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// Leftovers lists the containers whose names start with prefix.
func (e *Engine) Leftovers(ctx context.Context, prefix string) ([]container.Leftover, error) {
	found, err := e.search(ctx, prefix)
	if err != nil {
		return nil, err
	}
	states, err := e.states(ctx)
	if err != nil {
		return nil, err
	}
	var all []container.Leftover
	for _, c := range found {
		memory, _ := strconv.Atoi(c.Labels[labelMemory]) // 0 where there is none
		l := container.Leftover{
			ID: container.ID(c.ID), Name: c.Labels[labelName], Image: c.Labels[labelImage], MemoryMB: memory, Digest: c.Labels[labelSeal],
			Alive: alive(states[c.ID]), Paused: states[c.ID] == tasktypes.Status_PAUSED,
		}
		if addr := c.Labels[labelAddress]; addr != "" {
			l.Addr = net.JoinHostPort(addr, proxyPort)
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b container.Leftover) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Adopt adopts containers that another process has made. It returns an error for each
// that Create would make in another way now, or that is gone.
func (e *Engine) Adopt(ctx context.Context, lefts []container.Leftover, specs []container.Spec) []error {
	errs := e.roster.Adopt(ctx, lefts, func(i int) error { return e.fit(ctx, lefts[i], specs[i]) })
	// A container that ended since the list is reported as any other death.
	if err := e.reconcile(ctx); err != nil {
		e.log.Warn("check containers that were adopted", "error", err)
	}
	return errs
}

// fit returns why a container is not as Create would make it, or nil.
func (e *Engine) fit(ctx context.Context, l container.Leftover, spec container.Spec) error {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.Inspect)
	defer cancel()
	seal, err := e.seal(spec)
	if err != nil {
		return err
	}
	if seal != l.Digest {
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
func (e *Engine) search(ctx context.Context, prefix string) ([]containers.Container, error) {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.List)
	defer cancel()
	return search(ctx, e.api, prefix)
}

func search(ctx context.Context, api *client.Client, prefix string) ([]containers.Container, error) {
	all, err := api.ContainerService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list containers %s*: %w", prefix, err)
	}
	return slices.DeleteFunc(all, func(c containers.Container) bool {
		return c.Labels[labelInvoker] == "" || !strings.HasPrefix(c.Labels[labelName], prefix)
	}), nil
}

// states lists the states of the processes of all containers.
func (e *Engine) states(ctx context.Context) (map[string]tasktypes.Status, error) {
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.List)
	defer cancel()
	got, err := e.tasks().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, fmt.Errorf("list the states of containers: %w", err)
	}
	states := map[string]tasktypes.Status{}
	for _, p := range got.Tasks {
		states[p.ID] = p.Status
	}
	return states, nil
}

func alive(s tasktypes.Status) bool {
	return s == tasktypes.Status_RUNNING || s == tasktypes.Status_PAUSED || s == tasktypes.Status_PAUSING
}

// releaseUnused releases the network namespaces of this invoker that no container has.
func (e *Engine) releaseUnused(ctx context.Context) error {
	found, err := e.search(ctx, "")
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
