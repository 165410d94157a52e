package docker

import (
	"math"
	"strings"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// hostPart is what all containers of this invoker have in common.
type hostPart struct {
	config   api.Config
	host     api.HostConfig
	devices  *Devices
	selinux  string // one of the SELinux constants
	hideGPUs bool   // the runtime would show devices to every container
	whose    string
}

// hostPart builds the shared part of a create request and names the option
// that is wrong, if one is.
func (o Options) hostPart() (hostPart, error) {
	dns, err := addresses(o.DNSServers)
	if err != nil {
		return hostPart{}, err
	}
	shared := hostPart{whose: strings.TrimSuffix(o.Prefix, "_"), host: api.HostConfig{
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
	if err := shared.apply(o.ExtraArgs); err != nil {
		return hostPart{}, err
	}
	return shared, nil
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
		grant, err := p.grant(g)
		if err != nil {
			return client.ContainerCreateOptions{}, err
		}
		if grant.Way != "" {
			grant.apply(&host)
			lists = append(lists, grant.env())
		}
		if err := p.mount(&host, g); err != nil {
			return client.ContainerCreateOptions{}, err
		}
		// A name without a value takes the variable out of the image's. What is
		// set on purpose comes after it.
		lists = append([][]string{steering}, append(lists, g.Env)...)
	}
	config.Env = environ(lists...)
	if err := p.label(&config, host, spec); err != nil {
		return client.ContainerCreateOptions{}, err
	}
	return client.ContainerCreateOptions{Name: spec.Name, Config: &config, HostConfig: &host}, nil
}

// grant says how a container gets its device; a simulated one is none.
func (p hostPart) grant(g *container.GPU) (Grant, error) {
	if g.Simulated {
		return Grant{}, nil
	}
	return p.devices.Give(g.Device)
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
