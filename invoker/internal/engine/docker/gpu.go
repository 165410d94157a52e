package docker

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	api "github.com/moby/moby/api/types/container"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/cdi"
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
	// reports beforehand whether it can.
	DevicesRequest = "gpus"
)

// nvidiaRuntime is the name under which nvidia-ctk sets its runtime up.
const nvidiaRuntime = "nvidia"

// Devices finds the way in which each GPU of this host gets into a container.
type Devices struct {
	want    string
	cdi     cdi.Specs
	runtime bool // NVIDIA's runtime can be used
	taken   string
	survey  Survey
}

// Assignment is how one container gets its device.
type Assignment struct {
	Way  string // one of the Devices constants, never DevicesAuto
	Name string // what the device is called there
}

// Devices finds out how the daemon can give devices to containers. want is one of the
// Devices constants, empty for DevicesAuto. runtime starts all containers, empty for the
// daemon's default. files is the host's file system from its root, with the CDI
// specifications; nil means this process's own.
func (s Survey) Devices(want, runtime string, files fs.FS) (*Devices, error) {
	want = cmp.Or(want, DevicesAuto)
	if !slices.Contains([]string{DevicesAuto, DevicesCDI, DevicesRuntime, DevicesRequest}, want) {
		return nil, fmt.Errorf("gpu devices by %q: the ways are auto, cdi, nvidia and gpus", want)
	}
	if files == nil {
		files = os.DirFS("/")
	}
	d := &Devices{want: want, survey: s, cdi: cdi.Read(files, s.CDIDirs), runtime: slices.Contains(s.Runtimes, nvidiaRuntime)}
	d.cdi.AddNames(s.CDIDevices)
	if runtime != "" && runtime != nvidiaRuntime {
		d.runtime, d.taken = false, runtime
	}
	return d, nil
}

// Assign is how a container gets a device, which may be named by its UUID, its
// index, or as CDI does.
func (d *Devices) Assign(device string) (Assignment, error) {
	qualified, known := d.cdi.Find(device)
	plain := device
	if _, name, is := strings.Cut(device, "="); is {
		plain = name
	}
	switch {
	case d.want == DevicesCDI && !known:
		return Assignment{}, d.cannot(device, "no CDI specification that this daemon reads names it")
	case known && (d.want == DevicesCDI || d.want == DevicesAuto):
		return Assignment{DevicesCDI, qualified}, nil
	case d.want == DevicesRuntime && d.taken != "":
		return Assignment{}, d.cannot(device, "containers are started by the runtime "+d.taken)
	case d.want == DevicesRuntime && !d.runtime:
		return Assignment{}, d.cannot(device, "this daemon has no runtime of that name")
	case d.runtime && (d.want == DevicesRuntime || d.want == DevicesAuto):
		return Assignment{DevicesRuntime, plain}, nil
	}
	return Assignment{DevicesRequest, plain}, nil
}

// cannot returns the error for a configured way that the daemon lacks. It lists the ways
// that the daemon has.
func (d *Devices) cannot(device, why string) error {
	return fmt.Errorf("give GPU %s to containers by %s: %s; %s", device, d.want, why, d.Found())
}

// Found describes the daemon's ways to give GPUs to containers.
func (d *Devices) Found() string {
	s := d.survey
	text := "Docker " + s.Version + " has the runtimes " + strings.Join(s.Runtimes, ", ")
	if len(s.CDIDirs) == 0 {
		return text + " and reads no CDI specifications"
	}
	text += " and reads CDI specifications in " + strings.Join(s.CDIDirs, ", ")
	if names := d.cdi.Names(); len(names) > 0 {
		return text + ", which name " + strings.Join(names, ", ")
	}
	return text + ", where none for " + cdi.Kind + " can be seen from here"
}

// env is the environment that goes with an assignment. Where the daemon's default
// runtime is NVIDIA's, a device that comes another way must not be joined by
// those which the image asks for.
func (g Assignment) env() []string {
	visible := "void"
	if g.Way != DevicesCDI {
		visible = g.Name
	}
	return []string{"NVIDIA_VISIBLE_DEVICES=" + visible, "NVIDIA_DRIVER_CAPABILITIES=compute,utility"}
}

// apply puts a device into a create request.
func (g Assignment) apply(host *api.HostConfig) {
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

// CheckDevices reports whether every device can be given to a container in the
// configured way, and logs how.
func (e *Engine) CheckDevices(devices ...string) error {
	for _, device := range devices {
		g, err := e.host.devices.Assign(device)
		if err != nil {
			return fmt.Errorf("whisk.gpu.docker.devices: %w", err)
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

// The treatment of GPU containers on a host with SELinux. Confined containers may not read
// a file with the host's own label. Either the mounted files get another label, or the
// containers are not confined.
const (
	SELinuxAuto    = "auto"    // relabel where the daemon reports that it uses SELinux
	SELinuxRelabel = "relabel" // have the daemon label what is mounted
	SELinuxDisable = "disable" // GPU containers are not confined by SELinux
	SELinuxOff     = "off"     // labels stay as they are
)

// selinux is the one of the constants, never SELinuxAuto, that fits a daemon.
func (s Survey) selinux(want string) (string, error) {
	switch want {
	case SELinuxRelabel, SELinuxDisable, SELinuxOff:
		return want, nil
	case SELinuxAuto, "":
	default:
		return "", fmt.Errorf("selinux %q: the words are auto, relabel, disable and off", want)
	}
	for _, o := range s.SecurityOptions {
		if slices.Contains(strings.Split(o, ","), "name=selinux") {
			return SELinuxRelabel, nil
		}
	}
	return SELinuxOff, nil
}

// mount mounts files of the host that a container reads, and directories that it shares.
// The mounts are private: a later mount of the host below the same path does not appear in
// the container.
func (p hostPart) mount(host *api.HostConfig, g *container.GPU) error {
	if p.selinux != SELinuxRelabel {
		host.Mounts = append(slices.Clone(host.Mounts), binds(g.Mounts, true)...)
		host.Mounts = append(host.Mounts, binds(g.Shared, false)...)
		if p.selinux == SELinuxDisable {
			host.SecurityOpt = append(slices.Clip(host.SecurityOpt), "label=disable")
		}
		return nil
	}
	// The daemon labels only mounts in the older form. z: for all
	// containers, since several share a file, and one is used after another.
	host.Binds = slices.Clip(host.Binds)
	for way, mounts := range map[string][]container.Mount{"ro": g.Mounts, "rw": g.Shared} {
		for _, m := range mounts {
			if strings.Contains(m.Source+m.Target, ":") {
				return fmt.Errorf("mount %s with an SELinux label: its path has a colon", m.Source)
			}
			host.Binds = append(host.Binds, m.Source+":"+m.Target+":"+way+",rprivate,z")
		}
	}
	slices.Sort(host.Binds[len(p.host.Binds):])
	return nil
}
