package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/docker"
)

// checkGPURuntime tells in which way each device gets into a container, as the
// invoker would choose it.
func checkGPURuntime(f *Facts) []Finding {
	if !f.hasDriver() || !f.usesDocker() || f.docker.err != nil {
		return nil
	}
	const fix = "nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml, or nvidia-ctk runtime configure --runtime=docker and systemctl restart docker"
	ways, err := f.docker.value.Devices(f.Config.Docker.Devices, f.extraRuntime(), f.Files)
	if err != nil {
		return one(fail(err.Error(), "docs/configuration.md describes whisk.gpu.docker.devices"))
	}
	var all []Finding
	var good []string
	for _, name := range f.deviceNames() {
		grant, err := ways.Give(name)
		switch {
		case err != nil:
			all = append(all, fail(err.Error(), fix))
		case grant.Way == docker.DevicesRequest && f.Config.Docker.Devices == docker.DevicesAuto:
			all = append(all, fail("Docker can give no GPU to a container, unless its device requests work, which it does not tell: "+ways.Found(), fix))
		default:
			good = append(good, fmt.Sprintf("%s by %s as %s", name, grant.Way, grant.Name))
		}
	}
	if len(good) > 0 {
		all = append(all, ok(strings.Join(good, "; ")))
	}
	if f.docker.value.DefaultRuntime == "nvidia" {
		all = append(all, warn("nvidia is Docker's default runtime: every CUDA image asks for all devices; the invoker hides them, other containers see them",
			"remove default-runtime from /etc/docker/daemon.json and restart Docker"))
	}
	// Of several devices one finding is enough where all have the same.
	return slices.CompactFunc(all, func(a, b Finding) bool { return a == b })
}

// extraRuntime is the runtime that the operator has all containers started by.
func (f *Facts) extraRuntime() string {
	values := f.Config.Containers.ExtraArgs["runtime"]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// deviceNames are the devices by the names that the engine is given. Where
// NVML does not say, the first one stands for all.
func (f *Facts) deviceNames() []string {
	var names []string
	for _, d := range nvml.Devices(f.gpu.value.Cards) {
		names = append(names, d.UUID)
	}
	if len(names) == 0 {
		return []string{"0"}
	}
	return names
}
