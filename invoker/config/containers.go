package config

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// Pool bounds the containers this invoker keeps.
type Pool struct {
	UserMemory           Size
	UserCPUs             float64
	ConcurrentPeekFactor float64
	Overtake             time.Duration
	// PrewarmExpiration bounds unused prewarmed containers.
	PrewarmExpiration PrewarmExpiration
}

// PrewarmExpiration bounds when reactive prewarmed containers are reconsidered.
type PrewarmExpiration struct {
	InitDelay time.Duration
	Interval  time.Duration
	Variance  time.Duration
	Limit     int
}

func poolKeys(c *Config) []*Key {
	p := &c.Pool
	return []*Key{
		{Name: "whisk.container-pool.user-memory", Default: "1024 m", value: size(&p.UserMemory, int64(MiB)),
			Doc: "memory that all action containers may hold together"},
		{Name: "whisk.container-pool.user-cpus", value: optionalReal(&p.UserCPUs, 0.01, 4096),
			Doc: "CPUs shared out to containers in proportion to their memory; unset means no CPU limit"},
		{Name: "whisk.container-pool.concurrent-peek-factor", Default: "0.5", value: real(&p.ConcurrentPeekFactor, 0.000001, 1),
			Doc: "share of the possible concurrency for which messages are fetched ahead"},
		{Name: "whisk.container-pool.prewarm-expiration-check-init-delay", Default: "10 minutes", value: duration(&p.PrewarmExpiration.InitDelay),
			Doc: "first check for unused prewarmed containers after this"},
		{Name: "whisk.container-pool.prewarm-expiration-check-interval", Default: "10 minutes", value: duration(&p.PrewarmExpiration.Interval),
			Doc: "time between such checks"},
		{Name: "whisk.container-pool.prewarm-expiration-check-interval-variance", Default: "10 seconds", value: duration(&p.PrewarmExpiration.Variance),
			Doc: "random time up to this is added to that interval, once at the start, so that a fleet does not check at once"},
		{Name: "whisk.container-pool.prewarm-expiration-limit", Default: "100", value: integer(&p.PrewarmExpiration.Limit, 1, 1_000_000),
			Doc: "most prewarmed containers removed in one check"},
		{Name: "whisk.gpu.overtake", Default: "500 ms", value: duration(&p.Overtake),
			Doc: "how long runs that find a warm container may pass one that waits for room"},
	}
}

// Proxy is the life of one container around its runs.
type Proxy struct {
	IdleContainer time.Duration
	PauseGrace    time.Duration
	// LogErrors chooses which failed activations are logged by the invoker.
	LogErrors LogErrors
}

// LogErrors chooses failures by kind.
type LogErrors struct {
	Application bool
	Developer   bool
	Whisk       bool
}

func proxyKeys(c *Config) []*Key {
	p := &c.Proxy
	return []*Key{
		{Name: "whisk.container-proxy.timeouts.idle-container", Default: "10 minutes", value: duration(&p.IdleContainer),
			Doc: "remove a container that was not used for this long"},
		{Name: "whisk.container-proxy.timeouts.pause-grace", Default: "10 seconds", value: duration(&p.PauseGrace),
			Doc: "pause a container this long after its last run"},
		{Name: "whisk.container-proxy.log-activation-errors.application-errors", Default: "false", value: boolean(&p.LogErrors.Application),
			Doc: "log activations that end in an application error"},
		{Name: "whisk.container-proxy.log-activation-errors.developer-errors", Default: "false", value: boolean(&p.LogErrors.Developer),
			Doc: "log activations that end in a developer error"},
		{Name: "whisk.container-proxy.log-activation-errors.whisk-errors", Default: "true", value: boolean(&p.LogErrors.Whisk),
			Doc: "log activations that end in a whisk error"},
	}
}

// Containers is what every action container is created with.
type Containers struct {
	Network    string
	DNSServers []string
	DNSSearch  []string
	DNSOptions []string
	ExtraEnv   []string
	ExtraArgs  map[string][]string
}

func containerKeys(c *Config) []*Key {
	a := &c.Containers
	const p = "whisk.container-factory.container-args."
	return []*Key{
		{Name: p + "network", Default: "bridge", value: text(&a.Network), Doc: "Docker network of action containers"},
		{Name: p + "dns-servers", value: list(&a.DNSServers), Doc: "DNS servers of action containers"},
		{Name: p + "dns-search", value: list(&a.DNSSearch), Doc: "DNS search domains of action containers"},
		{Name: p + "dns-options", value: list(&a.DNSOptions), Doc: "resolver options of action containers"},
		{Name: p + "extra-env-vars", value: list(&a.ExtraEnv),
			Doc: "environment added to every action container, K=V or K each"},
		{Name: p + "extra-args.*", value: lists(&a.ExtraArgs),
			Doc: "further docker run options, one list of values each; they replace the invoker's own"},
	}
}

// Docker is how the Docker Engine is used.
type Docker struct {
	Host         string
	CertDir      string
	Registries   []string
	Logins       string
	Devices      string
	SELinux      string
	LogDirs      []string
	ParallelRuns int
	CapDrop      []string
	CapAdd       []string
	PidsLimit    int
	Timeouts     DockerTimeouts
}

// DockerTimeouts bound single operations; Forever means no bound.
type DockerTimeouts struct {
	Run     time.Duration
	Remove  time.Duration
	Pull    time.Duration
	List    time.Duration
	Inspect time.Duration
	Pause   time.Duration
	Resume  time.Duration
}

func dockerKeys(c *Config) []*Key {
	d, t := &c.Docker, &c.Docker.Timeouts
	const timeouts = "whisk.docker.client.timeouts."
	return []*Key{
		{Name: "whisk.gpu.docker.host", Env: "DOCKER_HOST", value: text(&d.Host),
			Doc: "address of the Docker Engine; empty means its default socket"},
		{Name: "whisk.gpu.docker.cert-dir", Env: "DOCKER_CERT_PATH", value: text(&d.CertDir),
			Doc: "directory with ca.pem, cert.pem and key.pem for an engine at a TCP address"},
		{Name: "whisk.gpu.docker.logins", Env: "DOCKER_CONFIG", Default: "/root/.docker", value: text(&d.Logins),
			Doc: "directory of docker login's config.json, for the registries that images are pulled from"},
		{Name: "whisk.gpu.docker.registries", value: list(&d.Registries),
			Doc: "registries that images may be pulled from, such as docker.io,registry.example.org:5000; empty means any"},
		{Name: "whisk.gpu.docker.devices", Default: "auto", value: choice(&d.Devices, "auto", "cdi", "nvidia", "gpus"),
			Doc: "how containers get their GPU: CDI, NVIDIA's container runtime, or as docker run --gpus; auto takes the first that the engine has"},
		{Name: "whisk.gpu.docker.selinux", Default: "auto", value: choice(&d.SELinux, "auto", "relabel", "disable", "off"),
			Doc: "how GPU containers may read their mounts under SELinux: relabel as docker run -v PATH:z does, disable the confinement, off changes nothing; auto relabels where the engine uses SELinux"},
		{Name: "whisk.gpu.docker.log-dirs", Default: "/containers", value: list(&d.LogDirs),
			Doc: "where the engine's containers directory may be mounted, to read log files; else below its own root, else over the API"},
		{Name: "whisk.gpu.docker.cap-drop", Default: "NET_RAW,NET_ADMIN", value: list(&d.CapDrop),
			Doc: "capabilities that action containers lose; ALL takes every one"},
		{Name: "whisk.gpu.docker.cap-add", value: list(&d.CapAdd),
			Doc: "capabilities that action containers keep although ALL are dropped"},
		{Name: "whisk.gpu.docker.pids-limit", Default: "1024", value: integer(&d.PidsLimit, 1, 4_194_304),
			Doc: "processes that an action container may have"},
		{Name: "whisk.docker.client.parallel-runs", Default: "10", value: integer(&d.ParallelRuns, -1, 1000),
			Doc: "container creations at once, at most as many as Docker's host has processors, or two; 0 or less means no bound"},
		{Name: timeouts + "run", Default: "1 minute", value: duration(&t.Run), Doc: "limit of a container creation"},
		{Name: timeouts + "rm", Default: "1 minute", value: duration(&t.Remove), Doc: "limit of a container removal"},
		{Name: timeouts + "pull", Default: "10 minutes", value: duration(&t.Pull), Doc: "limit of an image pull"},
		{Name: timeouts + "ps", Default: "1 minute", value: duration(&t.List), Doc: "limit of listing containers"},
		{Name: timeouts + "inspect", Default: "1 minute", value: duration(&t.Inspect), Doc: "limit of asking for a container's address"},
		{Name: timeouts + "pause", Default: "10 seconds", also: []string{"whisk.runc.timeouts.pause"},
			value: duration(&t.Pause), Doc: "limit of a pause"},
		{Name: timeouts + "unpause", Default: "10 seconds", also: []string{"whisk.runc.timeouts.resume"},
			value: duration(&t.Resume), Doc: "limit of a resume"},
	}
}

// Process is the development runtime without Docker.
type Process struct {
	Dir     string
	Proxies string
}

func processKeys(c *Config) []*Key {
	return []*Key{
		{Name: "whisk.gpu.process.dir", value: text(&c.Process.Dir),
			Doc: "working directories of action processes (process runtime); empty means the temporary directory"},
		{Name: "whisk.gpu.process.proxies", value: text(&c.Process.Proxies),
			Doc: "directory of the action proxies (process runtime); empty means those that come with the program"},
	}
}

// Runtimes is what actions run in.
type Runtimes struct {
	Kind                     string
	Manifest                 string
	Registry                 string
	UserRegistry             string
	BypassPullForLocalImages bool
	LocalImagePrefix         string
	// API is the address that actions call back.
	API APIHost
}

func runtimeKeys(c *Config) []*Key {
	r := &c.Runtimes
	return []*Key{
		{Name: "whisk.gpu.runtime", Default: "docker", value: choice(&r.Kind, "docker", "process"),
			Doc: "what actions run in; process has no isolation and is for development only"},
		{Name: "runtimes.manifest", Env: "RUNTIMES_MANIFEST", legacy: true, required: true, value: text(&r.Manifest),
			Doc: "the runtimes manifest (JSON)"},
		{Name: "whisk.container-factory.runtimes-registry.url", value: text(&r.Registry), Doc: "registry of runtime images"},
		{Name: "whisk.container-factory.user-images-registry.url", value: text(&r.UserRegistry), Doc: "registry of user images"},
		{Name: "whisk.runtimes.bypass-pull-for-local-images", Default: "false", value: boolean(&r.BypassPullForLocalImages),
			Doc: "do not pull user images whose prefix is the local one"},
		{Name: "whisk.runtimes.local-image-prefix", Default: "whisk", value: text(&r.LocalImagePrefix), Doc: "prefix of local images"},
		{Name: "whisk.api.host.name", Env: "WHISK_API_HOST_NAME", legacy: true, required: true, value: text(&r.API.Name),
			Doc: "host name of the OpenWhisk API as actions see it"},
		{Name: "whisk.api.host.proto", Env: "WHISK_API_HOST_PROTO", legacy: true, Default: "https", value: choice(&r.API.Proto, "http", "https"),
			Doc: "protocol of the OpenWhisk API"},
		{Name: "whisk.api.host.port", Env: "WHISK_API_HOST_PORT", legacy: true, Default: "443", value: integer(&r.API.Port, 1, 65535),
			Doc: "port of the OpenWhisk API"},
	}
}

// APIHost is the OpenWhisk API as actions see it.
type APIHost struct {
	Proto string
	Name  string
	Port  int
}

// URL is the address in the form that __OW_API_HOST has: the host in lower
// case, a port that the protocol implies left out.
func (a APIHost) URL() string {
	host := strings.ToLower(a.Name)
	if a.Proto == "https" && a.Port == 443 || a.Proto == "http" && a.Port == 80 || a.Port == 0 {
		return a.Proto + "://" + host
	}
	return a.Proto + "://" + net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(a.Port))
}
