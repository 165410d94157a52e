package docker

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	api "github.com/moby/moby/api/types/container"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/runargs"
)

func shared(t *testing.T, change func(*Options)) hostPart {
	t.Helper()
	options := DefaultOptions()
	if change != nil {
		change(&options)
	}
	part, err := options.hostPart()
	check.NoError(t, err)
	return part
}

// The options of OpenWhisk's `docker run`, and the hardening beside them.
func TestRequest(t *testing.T) {
	part := shared(t, func(o *Options) {
		o.Network, o.DNSServers, o.DNSSearch, o.DNSOptions = "whisk", []string{"10.0.0.53"}, []string{"example"}, []string{"ndots:1"}
	})
	spec := container.Spec{Name: "wsk00_7_guest_hello", Image: "a/b:1", MemoryMB: 256, CPUShares: 128, CPUs: 0.12345, Env: []string{"A=b"}}
	got, err := part.request(spec, nil)
	check.NoError(t, err)
	host := got.HostConfig
	checks := map[string]bool{
		"name":     got.Name == spec.Name && got.Config.Image == "a/b:1",
		"env":      slices.Equal(got.Config.Env, []string{"A=b"}),
		"memory":   host.Memory == 256<<20 && host.MemorySwap == host.Memory,
		"cpu":      host.CPUShares == 128 && host.NanoCPUs == 123450000,
		"network":  host.NetworkMode == "whisk",
		"dns":      len(host.DNS) == 1 && host.DNS[0].String() == "10.0.0.53" && host.DNSSearch[0] == "example" && host.DNSOptions[0] == "ndots:1",
		"caps":     slices.Equal(host.CapDrop, []string{"NET_RAW", "NET_ADMIN"}),
		"security": slices.Equal(host.SecurityOpt, []string{"no-new-privileges"}),
		"ulimit":   len(host.Ulimits) == 1 && *host.Ulimits[0] == api.Ulimit{Name: "nofile", Soft: 1024, Hard: 1024},
		"pids":     *host.PidsLimit == 1024,
		"log":      host.LogConfig.Type == "json-file" && host.LogConfig.Config == nil,
		"health":   slices.Equal(got.Config.Healthcheck.Test, []string{"NONE"}),
		"devices":  host.DeviceRequests == nil && host.Mounts == nil && host.Runtime == "",
		"nothing else": !host.Privileged && !host.AutoRemove && host.Binds == nil && host.PortBindings == nil &&
			len(got.Config.Labels) == 3 && got.Config.User == "" && host.MemoryReservation == 0,
	}
	for what, ok := range checks {
		check.That(t, ok, "%s: config %+v, host %+v", what, got.Config, host)
	}
}

// TestLogIsBounded: a json-file log has a size, unless the operator chose otherwise.
func TestLogIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		driver string
		extra  map[string][]string
		want   string
	}{
		"json-file":        {"json-file", nil, "1048577"},
		"options":          {"json-file", map[string][]string{"log-opt": {"max-size=3m"}}, "3m"},
		"driver":           {"json-file", map[string][]string{"log-driver": {"fluentd"}}, ""},
		"the daemon's own": {"", nil, ""},
	} {
		part := shared(t, func(o *Options) { o.LogDriver, o.ExtraArgs, o.MaxLogBytes = c.driver, c.extra, 1<<20+1 })
		check.Equal(t, part.host.LogConfig.Config["max-size"], c.want, name)
	}
}

// What is swapped out counts against the container's own limit.
func TestSwappedMemoryFits(t *testing.T) {
	spec := container.Spec{Name: "n", Image: "i", MemoryMB: 256, GPU: &container.GPU{Simulated: true, SpillMB: 1024}}
	got, err := shared(t, nil).request(spec, nil)
	check.NoError(t, err)
	host := got.HostConfig
	check.Equal(t, host.Memory, 1280<<20)
	check.Equal(t, host.MemorySwap, host.Memory)
}

func TestExtraArgs(t *testing.T) {
	part := shared(t, func(o *Options) {
		o.ExtraArgs = map[string][]string{
			"cap-drop": {"ALL"}, "cap-add": {"CHOWN"}, "ulimit": {"nofile=2048:4096", "nproc=64"}, "pids-limit": {"10"},
			"security-opt": {"apparmor=x"}, "log-driver": {"local"}, "log-opt": {"max-size=10m"}, "env": {"A=b", "C=d"},
			"label": {"who=me"}, "volume": {"/a:/b:ro"}, "tmpfs": {"/tmp:size=64m"}, "read-only": {""}, "shm-size": {"64m"},
			"memory-reservation": {"1g"}, "memory-swappiness": {"0"}, "oom-score-adj": {"500"}, "user": {"1000"}, "init": {"true"},
			"device": {"/dev/x", "/dev/y:/dev/z:r"}, "sysctl": {"net.core.somaxconn=1"}, "runtime": {"runsc"}, "add-host": {"h:1.2.3.4"},
		}
	})
	host, config := part.host, part.config
	checks := map[string]bool{
		"caps":     slices.Equal(host.CapDrop, []string{"ALL"}) && slices.Equal(host.CapAdd, []string{"CHOWN"}),
		"ulimit":   len(host.Ulimits) == 2 && *host.Ulimits[0] == api.Ulimit{Name: "nofile", Soft: 2048, Hard: 4096} && *host.Ulimits[1] == api.Ulimit{Name: "nproc", Soft: 64, Hard: 64},
		"pids":     *host.PidsLimit == 10,
		"security": slices.Equal(host.SecurityOpt, []string{"apparmor=x"}),
		"log":      host.LogConfig.Type == "local" && host.LogConfig.Config["max-size"] == "10m",
		"config":   slices.Equal(config.Env, []string{"A=b", "C=d"}) && config.Labels["who"] == "me" && config.User == "1000",
		"storage":  host.Binds[0] == "/a:/b:ro" && host.Tmpfs["/tmp"] == "size=64m" && host.ReadonlyRootfs && host.ShmSize == 64<<20,
		"memory":   host.MemoryReservation == 1<<30 && *host.MemorySwappiness == 0 && host.OomScoreAdj == 500,
		"devices": host.Devices[0] == api.DeviceMapping{PathOnHost: "/dev/x", PathInContainer: "/dev/x", CgroupPermissions: "rwm"} &&
			host.Devices[1] == api.DeviceMapping{PathOnHost: "/dev/y", PathInContainer: "/dev/z", CgroupPermissions: "r"},
		"rest": *host.Init && host.Runtime == "runsc" && host.Sysctls["net.core.somaxconn"] == "1" && host.ExtraHosts[0] == "h:1.2.3.4",
	}
	for what, ok := range checks {
		check.That(t, ok, "%s: config %+v, host %+v", what, config, host)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"priviledged", "true", `extra docker argument "priviledged" is not supported; known are add-host, `},
		{"gpus", "all", `extra docker argument "gpus" is not supported`},
		{"privileged", "true", `extra docker argument "privileged" is not supported`},
		{"ulimit", "nofile", `extra docker argument "ulimit": "nofile" is not of the form name=soft[:hard]`},
		{"pids-limit", "many", `extra docker argument "pids-limit": "many" is not a number`},
		{"shm-size", "64q", `extra docker argument "shm-size": "64q" is not a size such as 64m`},
		{"read-only", "maybe", `extra docker argument "read-only": "maybe" is neither true nor false`},
		{"label", "=x", `extra docker argument "label": "=x" is not of the form key=value`},
		{"device", "a:b:c:d", `extra docker argument "device": "a:b:c:d" is not of the form host[:container[:permissions]]`},
	} {
		options := DefaultOptions()
		options.ExtraArgs = map[string][]string{c.name: {c.value}}
		_, err := options.hostPart()
		check.That(check.Must(t), err != nil, "got %v, want %s", err, c.want)
		check.That(t, strings.HasPrefix(err.Error(), c.want), "got %v, want %s", err, c.want)
	}
	options := DefaultOptions()
	options.DNSServers = []string{"resolver"}
	_, err := options.hostPart()
	check.That(check.Must(t), err != nil, "got %v", err)
	check.Equal(t, err.Error(), `dns server "resolver" is not an IP address`)
	options = DefaultOptions()
	options.ExtraArgs = map[string][]string{"user": nil}
	_, err = options.hostPart()
	check.That(t, err != nil, "an option without its value is taken")
}

func TestEnviron(t *testing.T) {
	got := runargs.Environ([]string{"A", "B=1"}, []string{"A=2", "C=3", "A=4"}, nil, []string{"B"})
	check.EqualSlices(t, got, []string{"A=4", "B", "C=3"})
	got = runargs.Environ(nil, nil)
	check.That(t, got == nil, "of nothing: %v", got)
}

const cudaImage = "nvidia/cuda:13"

func cudaEnv() []string {
	return []string{"PATH=/bin", "LD_LIBRARY_PATH=/usr/local/cuda/lib64", "LD_PRELOAD=/evil.so", "CUDA_VISIBLE_DEVICES=1",
		"CUDA_HOME=/usr/local/cuda", "NVIDIA_VISIBLE_DEVICES=all"}
}

func gpuSpec(n int) container.Spec {
	spec := fakeSpec(n)
	spec.Image = cudaImage
	spec.GPU = &container.GPU{Device: uuid, Env: []string{"LD_PRELOAD=/shim.so"}}
	return spec
}

// Containers of an image have the variables that an image may set, and no others of the
// image.
func TestImageEnvironment(t *testing.T) {
	d := startDaemon(t)
	d.images = map[string][]string{cudaImage: cudaEnv()}
	e := d.engine(t, nil)
	for i := range 3 {
		h, err := e.Create(t.Context(), gpuSpec(i))
		check.NoError(t, err)
		want := []string{"LD_PRELOAD=/shim.so", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES=" + uuid,
			"NVIDIA_DRIVER_CAPABILITIES=compute,utility", "PATH=/bin", "LD_LIBRARY_PATH=/usr/local/cuda/lib64", "CUDA_HOME=/usr/local/cuda"}
		check.EqualSlices(t, d.containers[string(h.ID)].env, want)
	}
}

// A missing image is pulled, and asked when it is there.
func TestMissingImageIsAskedWhenItIsThere(t *testing.T) {
	d := startDaemon(t)
	d.onCreate = func(w http.ResponseWriter, _ string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.images == nil {
			refuse(w, http.StatusNotFound, "No such image: "+cudaImage)
		}
		return d.images == nil
	}
	d.onPull = func(http.ResponseWriter, string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.images = map[string][]string{cudaImage: cudaEnv()}
		return false
	}
	e := d.engine(t, nil)
	_, err := e.Create(t.Context(), gpuSpec(1))
	check.NoError(t, err)
	check.Includes(t, d.bodies[0].Env, "CUDA_VISIBLE_DEVICES")
}

// A container is made from the image that was inspected, also if its name comes to mean
// another image before the create. The next container is of the other image, without the
// variables that it must not set.
func TestChangedImage(t *testing.T) {
	d := startDaemon(t)
	d.images = map[string][]string{cudaImage: {"A=b"}}
	d.onCreate = func(http.ResponseWriter, string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.images[cudaImage] = cudaEnv()
		return false
	}
	e := d.engine(t, nil)
	for i, own := range []string{"A=b", "CUDA_HOME=/usr/local/cuda"} {
		h, err := e.Create(t.Context(), gpuSpec(i))
		check.NoError(t, err)
		env := d.containers[string(h.ID)].env
		check.Includes(t, env, own)
		for _, entry := range env {
			name, _, set := strings.Cut(entry, "=")
			check.That(t, !set || !container.IsReservedImageEnv(name) || slices.Contains(d.bodies[i].Env, entry), "the container has %s of its image", entry)
		}
	}
	check.Equal(t, len(d.bodies), 2)
}

// A missing source of a mount and a missing device are not the author's fault.
func TestDeviceErrors(t *testing.T) {
	for words, message := range map[string]string{
		`invalid mount config for type "bind": bind source path does not exist: /opt/shim.so`:                           "create",
		`OCI runtime create failed: nvidia-container-cli: initialization error: open /dev/x: no such file or directory`: "start",
		`CDI device injection failed: failed to stat CDI host device "/dev/nvidia3": no such file or directory`:         "start",
		`error mounting "/run/x" to rootfs at "/run/gpuwhisk": no such file or directory`:                               "start",
	} {
		t.Run(words, func(t *testing.T) {
			d := startDaemon(t)
			d.images = map[string][]string{cudaImage: nil}
			e := d.engine(t, nil)
			refusal := func(w http.ResponseWriter, _ string) bool { refuse(w, http.StatusBadRequest, words); return true }
			if message == "create" {
				d.onCreate = refusal
			} else {
				d.onStart = refusal
			}
			_, err := e.Create(t.Context(), gpuSpec(1))
			var failed *container.CreateError
			check.That(check.Must(t), errors.As(err, &failed), "%s: got %v", words, err)
			check.Equal(t, failed.Blame, container.BlameWhisk, "%s", words)
			check.Equal(t, failed.Message, provisionText, "%s", words)
		})
	}
}
