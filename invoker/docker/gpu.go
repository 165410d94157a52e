package docker

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	api "github.com/moby/moby/api/types/container"
)

// The ways in which a container can be given a GPU. Auto takes the first of
// the others that this daemon has for the device, in this order.
const (
	DevicesAuto = "auto"
	// DevicesCDI names the device as a CDI specification does. Nothing has to
	// be hooked into the start of a container, and a reload of systemd does
	// not take the device away again.
	DevicesCDI = "cdi"
	// DevicesRuntime starts the container by NVIDIA's runtime, which reads the
	// device from the container's environment.
	DevicesRuntime = "nvidia"
	// DevicesRequest asks the daemon as `docker run --gpus` does. No daemon
	// tells beforehand whether it can.
	DevicesRequest = "gpus"
)

// cdiKind is how NVIDIA's specifications call their devices.
const cdiKind = "nvidia.com/gpu"

// nvidiaRuntime is the name under which nvidia-ctk sets its runtime up.
const nvidiaRuntime = "nvidia"

// Devices knows in which way each GPU of this host gets into a container.
type Devices struct {
	want    string
	cdi     specs
	runtime bool // NVIDIA's runtime can be used
	taken   string
	survey  Survey
}

// Grant is how one container gets its device.
type Grant struct {
	Way  string // one of the Devices constants, never DevicesAuto
	Name string // what the device is called there
}

// Devices finds out what the daemon can do. want is one of the Devices
// constants, empty for DevicesAuto; runtime is the one that all containers are
// started by, empty for the daemon's default. files is the host's file system
// from its root, in which the specifications lie; nil is this process's own.
func (s Survey) Devices(want, runtime string, files fs.FS) (*Devices, error) {
	if want == "" {
		want = DevicesAuto
	}
	if !slices.Contains([]string{DevicesAuto, DevicesCDI, DevicesRuntime, DevicesRequest}, want) {
		return nil, fmt.Errorf("gpu devices by %q: the ways are auto, cdi, nvidia and gpus", want)
	}
	if files == nil {
		files = os.DirFS("/")
	}
	d := &Devices{want: want, survey: s, cdi: readSpecs(files, s.CDIDirs)}
	d.cdi.tell(s.CDIDevices)
	d.runtime = slices.Contains(s.Runtimes, nvidiaRuntime)
	if runtime != "" && runtime != nvidiaRuntime {
		d.runtime, d.taken = false, runtime
	}
	return d, nil
}

// Give says how a container gets a device, which may be named by its UUID, its
// index, or as CDI does.
func (d *Devices) Give(device string) (Grant, error) {
	qualified, known := d.cdi.find(device)
	plain := device
	if _, name, is := strings.Cut(device, "="); is {
		plain = name
	}
	switch {
	case d.want == DevicesCDI && !known:
		return Grant{}, d.cannot(device, "no CDI specification that this daemon reads names it")
	case known && (d.want == DevicesCDI || d.want == DevicesAuto):
		return Grant{DevicesCDI, qualified}, nil
	case d.want == DevicesRuntime && d.taken != "":
		return Grant{}, d.cannot(device, "containers are started by the runtime "+d.taken)
	case d.want == DevicesRuntime && !d.runtime:
		return Grant{}, d.cannot(device, "this daemon has no runtime of that name")
	case d.runtime && (d.want == DevicesRuntime || d.want == DevicesAuto):
		return Grant{DevicesRuntime, plain}, nil
	}
	return Grant{DevicesRequest, plain}, nil
}

// cannot is the error for a way that was asked for and is not there. It says
// what is there instead.
func (d *Devices) cannot(device, why string) error {
	return fmt.Errorf("give GPU %s to containers by %s: %s; %s", device, d.want, why, d.Found())
}

// Found says in words what the daemon has for GPUs.
func (d *Devices) Found() string {
	s := d.survey
	text := "Docker " + s.Version + " has the runtimes " + strings.Join(s.Runtimes, ", ")
	if len(s.CDIDirs) == 0 {
		return text + " and reads no CDI specifications"
	}
	text += " and reads CDI specifications in " + strings.Join(s.CDIDirs, ", ")
	if names := d.cdi.names(); len(names) > 0 {
		return text + ", which name " + strings.Join(names, ", ")
	}
	return text + ", where none for " + cdiKind + " can be seen from here"
}

// env is the environment that goes with a grant. Where the daemon's default
// runtime is NVIDIA's, a device that comes another way must not be joined by
// those which the image asks for.
func (g Grant) env() []string {
	visible := "void"
	if g.Way != DevicesCDI {
		visible = g.Name
	}
	return []string{"NVIDIA_VISIBLE_DEVICES=" + visible, "NVIDIA_DRIVER_CAPABILITIES=compute,utility"}
}

// apply puts a device into a create request.
func (g Grant) apply(host *api.HostConfig) {
	switch g.Way {
	case DevicesRuntime:
		host.Runtime = nvidiaRuntime
	case DevicesCDI:
		host.DeviceRequests = append(slices.Clone(host.DeviceRequests), api.DeviceRequest{Driver: "cdi", DeviceIDs: []string{g.Name}})
	case DevicesRequest:
		host.DeviceRequests = append(slices.Clone(host.DeviceRequests), api.DeviceRequest{
			Driver: "nvidia", DeviceIDs: []string{g.Name}, Capabilities: [][]string{{"gpu", "compute", "utility"}},
		})
	}
}

// CheckDevices tells whether every device can be given to a container in the
// configured way, and says in the log how.
func (e *Engine) CheckDevices(devices ...string) error {
	for _, device := range devices {
		g, err := e.host.devices.Give(device)
		if err != nil {
			return err
		}
		if g.Way == DevicesRequest && e.host.devices.want == DevicesAuto {
			e.log.Warn("containers get a GPU by a device request, which the daemon may refuse", "device", device,
				"found", e.host.devices.Found(), "fix", "nvidia-ctk cdi generate, or nvidia-ctk runtime configure --runtime=docker")
			continue
		}
		e.log.Info("containers get a GPU", "device", device, "way", g.Way, "name", g.Name)
	}
	return nil
}
