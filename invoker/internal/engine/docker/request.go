package docker

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/runargs"
)

// hostPart has the settings that all containers of this invoker have in common.
type hostPart struct {
	config   api.Config
	host     api.HostConfig
	devices  *Devices
	selinux  string // one of the SELinux constants
	hideGPUs bool   // the runtime would show devices to every container
	prefix   string // of containers' names
}

// hostPart builds the shared part of a create request and names the option
// that is wrong, if one is.
func (o Options) hostPart() (hostPart, error) {
	dns, err := addresses(o.DNSServers)
	if err != nil {
		return hostPart{}, err
	}
	shared := hostPart{prefix: o.Prefix, config: api.Config{
		// The proxy is watched by the invoker. A check of the image's own would run
		// beside every activation, in some images every second.
		Healthcheck: &api.HealthConfig{Test: []string{"NONE"}},
	}, host: api.HostConfig{
		NetworkMode: api.NetworkMode(o.Network),
		DNS:         dns,
		DNSSearch:   o.DNSSearch,
		DNSOptions:  o.DNSOptions,
		CapDrop:     o.CapDrop,
		CapAdd:      o.CapAdd,
		// A setuid program in a user's image gains nothing.
		SecurityOpt: []string{"no-new-privileges"},
		LogConfig:   api.LogConfig{Type: o.LogDriver},
		Resources: api.Resources{
			Ulimits: []*api.Ulimit{{Name: "nofile", Soft: 1024, Hard: 1024}},
		},
	}}
	if o.PidsLimit > 0 {
		shared.host.PidsLimit = &o.PidsLimit
	}
	args := runargs.Args{Config: shared.config, Host: shared.host}
	if err := args.Apply(o.ExtraArgs); err != nil {
		return hostPart{}, err
	}
	shared.config, shared.host = args.Config, args.Host
	shared.limitLog(o.MaxLogBytes)
	return shared, nil
}

// limitLog bounds the disk that a container's log takes, unless the extra arguments
// choose another log driver or options of their own.
func (p *hostPart) limitLog(bytes int64) {
	if log := &p.host.LogConfig; bytes > 0 && log.Type == "json-file" && log.Config == nil {
		log.Config = map[string]string{"max-size": strconv.FormatInt(bytes, 10), "max-file": strconv.Itoa(logs.Files)}
	}
}

// request gives the create request for one container. Memory plus swap is
// limited to the memory, so no container swaps. steering are the variables of
// the image that a GPU container must not get.
func (p hostPart) request(spec container.Spec, steering []string) (client.ContainerCreateOptions, error) {
	config, host := p.config, p.host
	config.Image = spec.Image
	host.Memory = spec.Limit()
	host.MemorySwap = host.Memory
	host.CPUShares = int64(spec.CPUShares)
	host.NanoCPUs = int64(math.Round(spec.CPUs * 1e9))
	lists := [][]string{spec.Env, p.config.Env}
	if p.hideGPUs {
		// CUDA images ask for all devices in their own environment.
		lists = append(lists, []string{"NVIDIA_VISIBLE_DEVICES=void"})
	}
	if g := spec.GPU; g != nil {
		if !g.Simulated {
			device, err := p.devices.Assign(g.Device)
			if err != nil {
				return client.ContainerCreateOptions{}, err
			}
			device.apply(&host)
			lists = append(lists, device.env())
		}
		if err := p.mount(&host, g); err != nil {
			return client.ContainerCreateOptions{}, err
		}
		// A name without a value takes the variable out of the image's. What is
		// set on purpose comes after it.
		lists = append([][]string{steering}, append(lists, g.Env)...)
	}
	config.Env = runargs.Environ(lists...)
	build := ""
	if spec.GPU != nil {
		build = spec.GPU.Build
	}
	labels := maps.Clone(config.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if err := roster.Label(labels, p.prefix, spec, config, host, build); err != nil {
		return client.ContainerCreateOptions{}, err
	}
	config.Labels = labels
	return client.ContainerCreateOptions{Name: spec.Name, Config: &config, HostConfig: &host}, nil
}

// request gives the create request for one container. A GPU container is made from the id
// of its image, so that no other image can take the name after the variables were read.
func (e *Engine) request(ctx context.Context, spec container.Spec) (request client.ContainerCreateOptions, err error) {
	var steering []string
	if spec.GPU != nil {
		if spec.Image, steering, err = e.steering(ctx, spec.Image); err != nil {
			return request, err
		}
	}
	request, err = e.host.request(spec, steering)
	if err == nil && e.inits(spec) {
		// After the seal: a container without an init can be adopted by a process that
		// would make it with one.
		init := true
		request.HostConfig.Init = &init
	}
	return request, err
}

// binds are mounts whose labels stay as they are.
func binds(mounts []container.Mount, readOnly bool) []mount.Mount {
	var all []mount.Mount
	for _, m := range mounts {
		all = append(all, mount.Mount{
			Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: readOnly,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	return all
}

// steering returns the id of an image, and the names of its variables that a GPU container
// must not get.
func (e *Engine) steering(ctx context.Context, image string) (id string, names []string, err error) {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Inspect)
	defer cancel()
	result, err := e.api.ImageInspect(ctx, image)
	if err != nil {
		return "", nil, fmt.Errorf("inspect image %s: %w", image, err)
	}
	if result.Config != nil {
		for _, entry := range result.Config.Env {
			if name, _, _ := strings.Cut(entry, "="); container.IsReservedImageEnv(name) {
				names = append(names, name)
			}
		}
	}
	return result.ID, names, nil
}
