package config

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Pool limits the memory and CPUs of action containers.
type Pool struct {
	UserMemory           Size          `key:"whisk.container-pool.user-memory" default:"1024 m" min:"1 MiB" doc:"memory that all action containers may hold together"`
	UserCPUs             float64       `key:"whisk.container-pool.user-cpus" range:"0.01..4096" doc:"CPUs shared out to containers in proportion to their memory; empty: no limit"`
	ConcurrentPeekFactor float64       `key:"whisk.container-pool.concurrent-peek-factor" default:"0.5" range:"0.000001..1" doc:"share of the possible concurrency for which messages are fetched ahead"`
	Overtake             time.Duration `key:"whisk.gpu.overtake" default:"500 ms" doc:"how long warm runs may pass an activation that waits for room"`
	PrewarmExpiration    PrewarmExpiration
}

// PrewarmExpiration sets when unused prewarmed containers are removed.
type PrewarmExpiration struct {
	InitDelay time.Duration `key:"whisk.container-pool.prewarm-expiration-check-init-delay" default:"10 minutes" doc:"time until the first check for unused prewarmed containers, time between checks, and most random time added once"`
	Interval  time.Duration `key:"whisk.container-pool.prewarm-expiration-check-interval" default:"10 minutes"`
	Variance  time.Duration `key:"whisk.container-pool.prewarm-expiration-check-interval-variance" default:"10 seconds"`
	Limit     int           `key:"whisk.container-pool.prewarm-expiration-limit" default:"100" range:"1..1000000" doc:"most prewarmed containers removed in one check"`
}

// Proxy sets when an idle container is paused and removed.
type Proxy struct {
	IdleContainer time.Duration `key:"whisk.container-proxy.timeouts.idle-container" default:"10 minutes" doc:"remove, or pause, a container that was not used for this long"`
	PauseGrace    time.Duration `key:"whisk.container-proxy.timeouts.pause-grace" default:"10 seconds"`
	LogErrors     LogErrors
}

// LogErrors selects the failed activations that the invoker logs.
type LogErrors struct {
	Application bool `key:"whisk.container-proxy.log-activation-errors.application-errors" default:"false" doc:"log activations with this kind of error"`
	Developer   bool `key:"whisk.container-proxy.log-activation-errors.developer-errors" default:"false"`
	Whisk       bool `key:"whisk.container-proxy.log-activation-errors.whisk-errors" default:"true"`
}

// Containers holds the settings with which every action container is created.
type Containers struct {
	Engine     string              `key:"whisk.container-engine" default:"auto" enum:"auto,docker,containerd" doc:"daemon that runs action containers; auto: containerd on a host that has its socket and not Docker's, otherwise Docker"`
	Network    string              `key:"whisk.container-factory.container-args.network" default:"bridge" doc:"Docker network of action containers, without effect with containerd; bridge: gpuwhisk, a network that the invoker creates and that isolates containers from each other; default: Docker's own bridge, where containers reach each other"`
	DNSServers []string            `key:"whisk.container-factory.container-args.dns-servers" doc:"containers' resolver"`
	DNSSearch  []string            `key:"whisk.container-factory.container-args.dns-search"`
	DNSOptions []string            `key:"whisk.container-factory.container-args.dns-options"`
	ExtraEnv   []string            `key:"whisk.container-factory.container-args.extra-env-vars,pairs" format:"environment" doc:"environment added to every action container, K=V or K each"`
	ExtraArgs  map[string][]string `key:"whisk.container-factory.container-args.extra-args.*,pairs" doc:"further docker run options, a list of values each; they replace the invoker's own"`
}

// Docker configures the use of the Docker Engine.
type Docker struct {
	Host         string   `key:"whisk.gpu.docker.host" env:"DOCKER_HOST" doc:"address of the Docker Engine; empty means its default socket"`
	CertDir      string   `key:"whisk.gpu.docker.cert-dir" env:"DOCKER_CERT_PATH" doc:"directory of ca.pem, cert.pem and key.pem for an engine at a TCP address"`
	Registries   []string `key:"whisk.gpu.docker.registries" doc:"registries that images may be pulled from, such as docker.io,registry.example.org:5000; empty: any"`
	Logins       string   `key:"whisk.gpu.docker.logins" env:"DOCKER_CONFIG" default:"/root/.docker" doc:"directory of docker login's config.json"`
	Devices      string   `key:"whisk.gpu.docker.devices" default:"auto" enum:"auto,cdi,nvidia,gpus" doc:"how containers get their GPU; auto uses the first way that the engine supports"`
	SELinux      string   `key:"whisk.gpu.docker.selinux" default:"auto" enum:"auto,relabel,disable,off" doc:"how GPU containers may read their mounts under SELinux: relabelled as by docker run -v PATH:z, or without confinement; auto relabels where the engine uses SELinux"`
	LogDirs      []string `key:"whisk.gpu.docker.log-dirs" default:"/containers" doc:"directories at which the engine's directory of containers may be mounted here, to read log files; without a mount the engine's own directory is tried, then its API"`
	ParallelRuns int      `key:"whisk.docker.client.parallel-runs" default:"10" range:"-1..1000" doc:"container creations at once, at most as many as Docker's host has processors, or two; 0: no bound"`
	CapDrop      []string `key:"whisk.gpu.docker.cap-drop" default:"NET_RAW,NET_ADMIN" doc:"capabilities removed from action containers (ALL: every one), and added back"`
	CapAdd       []string `key:"whisk.gpu.docker.cap-add"`
	PidsLimit    int      `key:"whisk.gpu.docker.pids-limit" default:"1024" range:"1..4194304" doc:"processes that an action container may have"`
	Timeouts     DockerTimeouts
}

// DockerTimeouts limit single operations. Forever means no limit.
type DockerTimeouts struct {
	Run     time.Duration `key:"whisk.docker.client.timeouts.run" default:"1 minute" doc:"time limit of creating, removing, pulling, listing, inspecting, pausing and resuming"`
	Remove  time.Duration `key:"whisk.docker.client.timeouts.rm" default:"1 minute"`
	Pull    time.Duration `key:"whisk.docker.client.timeouts.pull" default:"10 minutes"`
	List    time.Duration `key:"whisk.docker.client.timeouts.ps" default:"1 minute"`
	Inspect time.Duration `key:"whisk.docker.client.timeouts.inspect" default:"1 minute"`
	Pause   time.Duration `key:"whisk.docker.client.timeouts.pause" also:"whisk.runc.timeouts.pause" default:"10 seconds"`
	Resume  time.Duration `key:"whisk.docker.client.timeouts.unpause" also:"whisk.runc.timeouts.resume" default:"10 seconds"`
}

// Containerd configures the use of containerd. The settings of Docker that are about
// containers, registries and time limits apply to containerd, too.
type Containerd struct {
	Socket      string   `key:"whisk.gpu.containerd.socket" doc:"containerd's socket; empty: the first that exists of /run/containerd/containerd.sock and /run/k3s/containerd/containerd.sock"`
	Snapshotter string   `key:"whisk.gpu.containerd.snapshotter" default:"overlayfs" doc:"containerd's plugin that holds the file systems of containers"`
	StateDir    string   `key:"whisk.gpu.containerd.state-dir" default:"/var/lib/gpuwhisk/containerd" doc:"logs and files of containers, and the program that writes the logs. containerd sees this directory under the same path"`
	RunDir      string   `key:"whisk.gpu.containerd.run-dir" default:"/run/gpuwhisk/containerd" doc:"network namespaces of containers. containerd sees this directory, with its mounts, under the same path"`
	LogProgram  string   `key:"whisk.gpu.containerd.log-program" doc:"program that runs on containerd's host and writes the logs of containers: gpuwhisk-log or gpuwhisk; it is copied to state-dir. Empty: /usr/lib/gpuwhisk/gpuwhisk-log if it is there, otherwise the invoker's own program"`
	Init        string   `key:"whisk.gpu.containerd.init" doc:"static program that is the first process of containers and reaps orphans; it is copied to state-dir. Empty: the first that the invoker finds of docker-init, tini-static and catatonit; none: containers start without it"`
	HostsDir    string   `key:"whisk.gpu.containerd.hosts-dir" doc:"directory of the hosts.toml files with registries' mirrors and certificates; empty: the first that exists of /etc/containerd/certs.d and k3s' directory"`
	Config      string   `key:"whisk.gpu.containerd.config" doc:"containerd's configuration: its logins for registries (registry.configs) are used where whisk.gpu.docker.logins has none; empty: the first that exists of /etc/containerd/config.toml and k3s' file"`
	Bridge      string   `key:"whisk.gpu.containerd.bridge" default:"gpuwhisk0" doc:"bridge of action containers, which the invoker creates; at most 15 bytes"`
	Subnet      []string `key:"whisk.gpu.containerd.subnet" default:"10.89.0.0/20,172.30.240.0/20,192.168.224.0/20,10.213.0.0/20" doc:"address ranges for the bridge; the first that this host does not use is taken"`
	PluginDirs  []string `key:"whisk.gpu.containerd.plugin-dirs" default:"/opt/cni/bin,/usr/lib/cni,/usr/libexec/cni,/var/lib/rancher/k3s/data/cni,/var/lib/rancher/k3s/data/current/bin" doc:"directories of the CNI plugins bridge, host-local and loopback, as the invoker sees them"`
}

// Process configures the development runtime, which needs no Docker.
type Process struct {
	Dir     string `key:"whisk.gpu.process.dir" doc:"working directories of action processes; empty means the temporary directory"`
	Proxies string `key:"whisk.gpu.process.proxies" doc:"directory of the action proxies of the process runtime; empty means the program's own proxies"`
}

// Runtimes selects the kind of container and the images of actions.
type Runtimes struct {
	Kind                     string `key:"whisk.gpu.runtime" default:"docker" enum:"docker,process" doc:"process has no isolation and is for development only"`
	Manifest                 string `key:"runtimes.manifest,required,plain" env:"RUNTIMES_MANIFEST" doc:"the runtimes manifest (JSON)"`
	Registry                 string `key:"whisk.container-factory.runtimes-registry.url" doc:"registry of the images of runtimes, and of users"`
	UserRegistry             string `key:"whisk.container-factory.user-images-registry.url"`
	BypassPullForLocalImages bool   `key:"whisk.runtimes.bypass-pull-for-local-images" default:"false" doc:"do not pull user images with this prefix"`
	LocalImagePrefix         string `key:"whisk.runtimes.local-image-prefix" default:"whisk"`
	API                      APIHost
}

// ParseManifest parses the runtimes manifest and adds the registries of its images.
func (r Runtimes) ParseManifest() (*activation.Manifest, error) {
	return activation.ParseManifest([]byte(r.Manifest), activation.ManifestOptions{
		RuntimesRegistry: r.Registry, UserImagesRegistry: r.UserRegistry,
		BypassPull: r.BypassPullForLocalImages, LocalPrefix: r.LocalImagePrefix,
	})
}

// Processes reports whether actions run as plain processes.
func (r Runtimes) Processes() bool { return r.Kind == "process" }

// APIHost is the address of the OpenWhisk API as actions see it.
type APIHost struct {
	Proto string `key:"whisk.api.host.proto,plain" env:"WHISK_API_HOST_PROTO" default:"https" enum:"http,https" doc:"protocol and port of the OpenWhisk API as actions see it"`
	Name  string `key:"whisk.api.host.name,required,plain" env:"WHISK_API_HOST_NAME" doc:"host name of the OpenWhisk API as actions see it"`
	Port  int    `key:"whisk.api.host.port,plain" env:"WHISK_API_HOST_PORT" default:"443" range:"1..65535" doc:"protocol and port of the OpenWhisk API as actions see it"`
}

// ContainerEnv returns the environment of every action container.
func (c *Config) ContainerEnv() []string {
	return append([]string{"__OW_API_HOST=" + c.Runtimes.API.url()}, c.Containers.ExtraEnv...)
}

// url returns the address in the form of __OW_API_HOST: the host in lower case, without
// a port that is the protocol's default.
func (a APIHost) url() string {
	host := strings.ToLower(a.Name)
	if a.Proto == "https" && a.Port == 443 || a.Proto == "http" && a.Port == 80 || a.Port == 0 {
		return a.Proto + "://" + host
	}
	return a.Proto + "://" + net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(a.Port))
}
