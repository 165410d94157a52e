package docker

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

const (
	uuid  = "GPU-5fd4f087-86f3-7a43-b711-4771313afc50"
	slice = "MIG-b3a1c7d2-0c5b-5e0e-8d3c-4a5a0f3f6a55"
)

// host is a file system with a CDI specification and a driver that knows uuid
// as device 3.
func host(spec string) fstest.MapFS {
	files := fstest.MapFS{"proc/driver/nvidia/gpus/0000:1a:00.0/information": {
		Data: []byte("Model: \t\t NVIDIA H200\nGPU UUID: \t " + uuid + "\nDevice Minor: \t 3\n")}}
	if spec != "" {
		files["etc/cdi/nvidia.yaml"] = &fstest.MapFile{Data: []byte(spec)}
	}
	return files
}

const byIndex = "kind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia3\n"

const byUUID = "kind: nvidia.com/gpu\ndevices:\n- name: " + uuid + "\n- name: " + slice + "\n"

func TestGive(t *testing.T) {
	old := Survey{Version: "20.10", Runtimes: []string{"runc"}}
	toolkit := Survey{Version: "24.0", Runtimes: []string{"nvidia", "runc"}}
	cdi := Survey{Version: "28.3", Runtimes: []string{"nvidia", "runc"}, CDIDirs: []string{"/etc/cdi", "/var/run/cdi"}}
	listing := cdi
	listing.CDIDevices = []string{"nvidia.com/gpu=" + uuid, "other.com/nic=0"}
	cases := []struct {
		name    string
		survey  Survey
		spec    string
		want    string
		runtime string
		device  string
		grant   Assignment
		err     string
	}{
		{"CDI by UUID", cdi, byUUID, "auto", "", uuid, Assignment{"cdi", "nvidia.com/gpu=" + uuid}, ""},
		{"CDI by node", cdi, byIndex, "", "", uuid, Assignment{"cdi", "nvidia.com/gpu=0"}, ""},
		{"CDI by index", cdi, byIndex, "cdi", "", "0", Assignment{"cdi", "nvidia.com/gpu=0"}, ""},
		{"CDI by its own name", cdi, byUUID, "cdi", "", "nvidia.com/gpu=" + uuid, Assignment{"cdi", "nvidia.com/gpu=" + uuid}, ""},
		{"CDI of a slice", cdi, byUUID, "cdi", "", slice, Assignment{"cdi", "nvidia.com/gpu=" + slice}, ""},
		{"CDI as the daemon lists it", listing, "", "cdi", "", uuid, Assignment{"cdi", "nvidia.com/gpu=" + uuid}, ""},
		{"CDI that does not name the slice", cdi, byIndex, "auto", "", slice, Assignment{"nvidia", slice}, ""},
		{"CDI that the daemon does not read", toolkit, byUUID, "auto", "", uuid, Assignment{"nvidia", uuid}, ""},
		{"runtime asked for", cdi, byUUID, "nvidia", "", uuid, Assignment{"nvidia", uuid}, ""},
		{"runtime, a slice", toolkit, "", "auto", "", slice, Assignment{"nvidia", slice}, ""},
		{"runtime, by a CDI name", toolkit, "", "auto", "", "nvidia.com/gpu=0", Assignment{"nvidia", "0"}, ""},
		{"all containers by the runtime", toolkit, "", "auto", "nvidia", uuid, Assignment{"nvidia", uuid}, ""},
		{"all containers by another runtime", toolkit, "", "auto", "runsc", uuid, Assignment{"gpus", uuid}, ""},
		{"neither", old, byUUID, "auto", "", uuid, Assignment{"gpus", uuid}, ""},
		{"request asked for", cdi, byUUID, "gpus", "", slice, Assignment{"gpus", slice}, ""},
		{"no CDI", old, byUUID, "cdi", "", uuid, Assignment{},
			"give GPU " + uuid + " to containers by cdi: no CDI specification that this daemon reads names it; Docker 20.10 has the runtimes runc and reads no CDI specifications"},
		{"CDI without the slice", cdi, byIndex, "cdi", "", slice, Assignment{}, "in /etc/cdi, /var/run/cdi, which name nvidia.com/gpu=0"},
		{"CDI that is not to be seen", cdi, "", "cdi", "", uuid, Assignment{}, "where none for nvidia.com/gpu can be seen from here"},
		{"no runtime", old, "", "nvidia", "", uuid, Assignment{}, "this daemon has no runtime of that name; Docker 20.10 has the runtimes runc"},
		{"runtime against another", toolkit, "", "nvidia", "runsc", uuid, Assignment{}, "containers are started by the runtime runsc"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d, err := c.survey.Devices(c.want, c.runtime, host(c.spec))
			check.NoError(t, err)
			got, err := d.Assign(c.device)
			check.That(check.Must(t), (err == nil) == (c.err == ""), "got %v, want %q", err, c.err)
			if err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got %v, want %q", err, c.err)
			}
			check.Equal(t, got, c.grant)
		})
	}
	_, err := old.Devices("magic", "", nil)
	check.ErrorContains(t, err, `"magic"`, "an unknown way")
}

// gpuRequest gives the request for a GPU container by one way.
func gpuRequest(t *testing.T, want string, change func(*Options, *container.Spec), steering ...string) (api.Config, api.HostConfig) {
	t.Helper()
	spec := container.Spec{GPU: &container.GPU{Device: uuid}}
	part := shared(t, func(o *Options) { change(o, &spec) })
	var err error
	part.devices, err = Survey{Runtimes: []string{"nvidia"}, CDIDirs: []string{"/etc/cdi"}}.Devices(want, "", host(byUUID))
	check.NoError(t, err)
	part.hideGPUs = true
	got, err := part.request(spec, steering)
	check.NoError(t, err)
	return *got.Config, *got.HostConfig
}

func TestRequestGPU(t *testing.T) {
	const capabilities = "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
	cases := []struct{ want, requests, runtime, visible string }{
		{"cdi", `[{"Driver":"cdi","Count":0,"DeviceIDs":["nvidia.com/gpu=` + uuid + `"],"Capabilities":null,"Options":null}]`, "", "void"},
		{"nvidia", `null`, "nvidia", uuid},
		{"gpus", `[{"Driver":"nvidia","Count":0,"DeviceIDs":["` + uuid + `"],"Capabilities":[["gpu","compute","utility"]],"Options":null}]`, "", uuid},
	}
	for _, c := range cases {
		config, host := gpuRequest(t, c.want, func(*Options, *container.Spec) {})
		requests, _ := json.Marshal(host.DeviceRequests)
		check.Equal(t, string(requests), c.requests, "%s", c.want)
		check.Equal(t, host.Runtime, c.runtime, "%s", c.want)
		check.EqualSlices(t, config.Env, []string{"NVIDIA_VISIBLE_DEVICES=" + c.visible, capabilities}, "%s: environment", c.want)
	}
}

// The device's variables replace the operator's, and the container's own replace both.
// Variables that only the image sets are removed.
func TestRequestEnvironment(t *testing.T) {
	config, host := gpuRequest(t, "nvidia", func(o *Options, spec *container.Spec) {
		o.ExtraArgs = map[string][]string{"env": {"LD_PRELOAD=/operator.so", "NVIDIA_VISIBLE_DEVICES=all", "X=y"}}
		spec.Env = []string{"A=b", "GPUWHISK_SHIM=off"}
		spec.GPU.Env = []string{"LD_PRELOAD=/shim.so", "GPUWHISK_SHIM=managed"}
		spec.GPU.Mounts = []container.Mount{{Source: "/host/shim.so", Target: "/shim.so"}, {Source: "/run/x", Target: "/run/gpuwhisk"}}
		spec.GPU.Shared = []container.Mount{{Source: "/run/y", Target: "/dev/shm"}}
	}, "LD_AUDIT", "LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES")
	want := []string{"LD_AUDIT", "LD_PRELOAD=/shim.so", "NVIDIA_VISIBLE_DEVICES=" + uuid, "A=b", "GPUWHISK_SHIM=managed", "X=y",
		"NVIDIA_DRIVER_CAPABILITIES=compute,utility"}
	check.EqualSlices(t, config.Env, want)
	check.Equal(check.Must(t), len(host.Mounts), 3)
	for i, m := range host.Mounts {
		check.Equal(t, m.Type, mount.TypeBind, "mount %d", i)
		check.That(t, m.ReadOnly == (m.Target != "/dev/shm"), "mount %d: %+v", i, m)
		check.Equal(t, m.BindOptions.Propagation, mount.PropagationRPrivate, "mount %d", i)
		check.That(t, m.Target != "", "mount %d: %+v", i, m)
		check.That(t, m.Source != "", "mount %d: %+v", i, m)
	}
}

func TestRequestSimulated(t *testing.T) {
	config, host := gpuRequest(t, "cdi", func(_ *Options, spec *container.Spec) {
		spec.GPU = &container.GPU{Simulated: true, Env: []string{"LD_PRELOAD=/shim.so"}, Mounts: []container.Mount{{Source: "/a", Target: "/b"}}}
	}, "CUDA_VISIBLE_DEVICES")
	check.That(t, host.DeviceRequests == nil, "host %+v", host)
	check.Equal(t, host.Runtime, "")
	check.Equal(t, len(host.Mounts), 1)
	check.EqualSlices(t, config.Env, []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES=void", "LD_PRELOAD=/shim.so"})
}

// The request of one container shares no memory with the request of another.
func TestRequestsAreApart(t *testing.T) {
	part := shared(t, func(o *Options) { o.ExtraArgs = map[string][]string{"env": {"X=y"}} })
	part.devices = &Devices{want: DevicesRequest}
	var made []string
	for _, device := range []string{"0", "1"} {
		got, err := part.request(container.Spec{Env: make([]string, 1, 8), GPU: &container.GPU{
			Device: device, Mounts: []container.Mount{{Source: device, Target: "/t"}}}}, nil)
		check.NoError(t, err)
		made = append(made, got.HostConfig.DeviceRequests[0].DeviceIDs[0]+got.HostConfig.Mounts[0].Source)
	}
	check.EqualSlices(t, made, []string{"00", "11"}, "requests are shared")
	check.Equal(t, len(part.config.Env), 1, "the shared part changed")
	check.Equal(t, len(part.host.DeviceRequests), 0, "the shared part changed")
	check.Equal(t, len(part.host.Mounts), 0, "the shared part changed")
}

// Where every container would be shown all devices, those without a GPU are
// made to see none, whatever their image and the operator's extra variables ask.
func TestHiddenGPUs(t *testing.T) {
	for _, c := range []struct {
		info, runtime string
		hidden        bool
	}{
		{`{"DefaultRuntime":"runc","Runtimes":{"runc":{},"nvidia":{}}}`, "", false},
		{`{"DefaultRuntime":"nvidia","Runtimes":{"runc":{},"nvidia":{}}}`, "", true},
		{`{"DefaultRuntime":"mine","Runtimes":{"mine":{"path":"/usr/bin/nvidia-container-runtime"}}}`, "", true},
		{`{"DefaultRuntime":"runc","Runtimes":{"runc":{},"nvidia":{}}}`, "nvidia", true},
		{`{"DefaultRuntime":"nvidia","Runtimes":{"runc":{},"nvidia":{}}}`, "runc", false},
	} {
		t.Run(c.info+c.runtime, func(t *testing.T) {
			d := startDaemon(t)
			d.info = c.info
			e := d.engine(t, func(o *Options) {
				o.ExtraArgs = map[string][]string{"env": {"NVIDIA_VISIBLE_DEVICES=all"}}
				if c.runtime != "" {
					o.ExtraArgs["runtime"] = []string{c.runtime}
				}
			})
			created(t, e, 1)
			want := "NVIDIA_VISIBLE_DEVICES=all"
			if c.hidden {
				want = "NVIDIA_VISIBLE_DEVICES=void"
			}
			check.EqualSlices(t, d.bodies[0].Env, []string{want}, "%s, runtime %q: environment", c.info, c.runtime)
		})
	}
}

func TestCheckDevices(t *testing.T) {
	d := startDaemon(t)
	d.info = `{"ServerVersion":"28.3","Runtimes":{"runc":{},"nvidia":{}},"CDISpecDirs":["/etc/cdi"],
		"DiscoveredDevices":[{"Source":"cdi","ID":"nvidia.com/gpu=` + uuid + `"}]}`
	e := d.engine(t, func(o *Options) { o.Devices, o.Files = "cdi", fstest.MapFS{} })
	check.NoError(t, e.CheckDevices(uuid))
	err := e.CheckDevices(uuid, slice)
	check.ErrorContains(t, err, slice, "a slice that cannot be had")
	check.ErrorContains(t, err, "whisk.gpu.docker.devices")
	options := DefaultOptions()
	options.Host, options.Devices = "tcp://"+d.addr, "magic"
	_, err = New(t.Context(), options)
	check.That(t, err != nil, "an unknown way is taken")
}

// TestSELinux: where the daemon uses SELinux, or an operator says so, the files that are
// mounted into GPU containers get a label that the containers may read.
func TestSELinux(t *testing.T) {
	with, without := []string{"name=seccomp,profile=builtin", "name=selinux"}, []string{"name=seccomp,profile=builtin", "name=cgroupns"}
	labelled := []string{"/of/operator:/x", "/s/lib.so:/opt/lib.so:ro,rprivate,z", "/s/run:/run:ro,rprivate,z", "/s/shm:/dev/shm:rw,rprivate,z"}
	for _, c := range []struct {
		want    string
		daemon  []string
		binds   []string
		mounts  int
		confine bool
	}{
		{"", without, labelled[:1], 3, true},
		{SELinuxAuto, without, labelled[:1], 3, true},
		{SELinuxAuto, with, labelled, 0, true},
		{SELinuxOff, with, labelled[:1], 3, true},
		{SELinuxRelabel, without, labelled, 0, true},
		{SELinuxDisable, with, labelled[:1], 3, false},
	} {
		part := shared(t, func(*Options) {})
		part.host.Binds = []string{"/of/operator:/x"}
		var err error
		part.selinux, err = (Survey{SecurityOptions: c.daemon}).selinux(c.want)
		check.NoError(t, err)
		for range 2 { // what one request adds is not in the next one's
			got, err := part.request(container.Spec{GPU: &container.GPU{
				Simulated: true,
				Mounts:    []container.Mount{{Source: "/s/lib.so", Target: "/opt/lib.so"}, {Source: "/s/run", Target: "/run"}},
				Shared:    []container.Mount{{Source: "/s/shm", Target: "/dev/shm"}},
			}}, nil)
			check.NoError(t, err)
			host := got.HostConfig
			check.EqualSlices(t, host.Binds, c.binds, "%q with %v: binds", c.want, c.daemon)
			check.Equal(t, len(host.Mounts), c.mounts, "%q with %v: binds", c.want, c.daemon)
			want := []string{"no-new-privileges"}
			if !c.confine {
				want = append(want, "label=disable")
			}
			check.EqualSlices(t, host.SecurityOpt, want, "%q with %v: security options", c.want, c.daemon)
		}
		plain, err := part.request(container.Spec{}, nil)
		check.NoError(t, err, "%q: a container without a GPU got %+v", c.want, plain.HostConfig)
		check.Equal(t, len(plain.HostConfig.Binds), 1, "%q: a container without a GPU", c.want)
		check.Equal(t, len(plain.HostConfig.SecurityOpt), 1, "%q: a container without a GPU", c.want)
	}
	_, err := (Survey{}).selinux("maybe")
	check.That(t, err != nil, "any word is taken")
	part := shared(t, func(*Options) {})
	part.selinux = SELinuxRelabel
	_, err = part.request(container.Spec{GPU: &container.GPU{Simulated: true, Mounts: []container.Mount{{Source: "/a:b", Target: "/t"}}}}, nil)
	check.That(t, err != nil, "a path with a colon is taken")
}
