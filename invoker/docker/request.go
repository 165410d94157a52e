package docker

import (
	"math"
	"strings"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// hostPart is what all containers of this invoker have in common.
type hostPart struct {
	config   api.Config
	host     api.HostConfig
	hideGPUs bool // the default runtime would show devices to every container
}

// hostPart builds the shared part of a create request and names the option
// that is wrong, if one is.
func (o Options) hostPart() (hostPart, error) {
	dns, err := addresses(o.DNSServers)
	if err != nil {
		return hostPart{}, err
	}
	shared := hostPart{host: api.HostConfig{
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
// limited to the memory, so no container swaps.
func (p hostPart) request(spec container.Spec) client.ContainerCreateOptions {
	config, host := p.config, p.host
	config.Image = spec.Image
	config.Env = append(append([]string(nil), spec.Env...), config.Env...)
	host.Memory = int64(spec.MemoryMB) << 20
	host.MemorySwap = host.Memory
	host.CPUShares = int64(spec.CPUShares)
	host.NanoCPUs = int64(math.Round(spec.CPUs * 1e9))
	switch {
	case spec.GPU != nil && !spec.GPU.Simulated:
		host.DeviceRequests = append(host.DeviceRequests[:len(host.DeviceRequests):len(host.DeviceRequests)],
			deviceRequest(spec.GPU.Device))
		config.Env = append(config.Env, "NVIDIA_DRIVER_CAPABILITIES=compute,utility")
	case p.hideGPUs:
		// CUDA images ask for all devices in their own environment.
		config.Env = append(config.Env, "NVIDIA_VISIBLE_DEVICES=void")
	}
	return client.ContainerCreateOptions{Name: spec.Name, Config: &config, HostConfig: &host}
}

// deviceRequest asks for one device, by its CDI name (vendor/class=name) or,
// where there is no CDI, by index or UUID from NVIDIA's container runtime.
func deviceRequest(device string) api.DeviceRequest {
	if strings.Contains(device, "/") && strings.Contains(device, "=") {
		return api.DeviceRequest{Driver: "cdi", DeviceIDs: []string{device}}
	}
	return api.DeviceRequest{
		Driver:       "nvidia",
		DeviceIDs:    []string{device},
		Capabilities: [][]string{{"gpu", "compute", "utility"}},
	}
}
