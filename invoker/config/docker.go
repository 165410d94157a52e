package config

import "time"

// Containers is what every action container is created with.
type Containers struct {
	Network    string
	DNSServers []string
	DNSSearch  []string
	DNSOptions []string
	// ExtraEnv holds K=V or K entries.
	ExtraEnv []string
	// ExtraArgs are further "docker run" options by name without dashes; a
	// name that the invoker sets itself is replaced.
	ExtraArgs map[string][]string
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
			Doc: "further docker run options, one list of values per option; replaces the invoker's own option of that name"},
	}
}

// Docker is how the Docker Engine is used.
type Docker struct {
	// Host is the engine's address; empty means the default socket. CertDir
	// holds ca.pem, cert.pem and key.pem for a TCP address.
	Host    string
	CertDir string
	// Registries are the hosts that images may be pulled from, empty for any.
	// Logins is the directory of the config.json that docker login writes.
	Registries []string
	Logins     string
	// Devices is how containers are given their GPU.
	Devices string
	// SELinux is how GPU containers may read what is mounted into them.
	SELinux string
	// LogDirs are the places where the engine's containers directory may be
	// mounted; after them the one below the engine's own root is tried.
	LogDirs []string
	// ParallelRuns bounds container creations under way; 0 or less means no
	// bound.
	ParallelRuns int
	// CapDrop, CapAdd and PidsLimit harden action containers.
	CapDrop   []string
	CapAdd    []string
	PidsLimit int
	Timeouts  DockerTimeouts
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
			Doc: "directory with the config.json of docker login: names, tokens and helper programs for the registries that images are pulled from"},
		{Name: "whisk.gpu.docker.registries", value: list(&d.Registries),
			Doc: "registries that images may be pulled from, such as docker.io,registry.example.org:5000; empty means any"},
		{Name: "whisk.gpu.docker.devices", Default: "auto", value: choice(&d.Devices, "auto", "cdi", "nvidia", "gpus"),
			Doc: "how containers get their GPU: by CDI, by NVIDIA's container runtime, or as docker run --gpus does; auto takes the first of these that the engine has"},
		{Name: "whisk.gpu.docker.selinux", Default: "auto", value: choice(&d.SELinux, "auto", "relabel", "disable", "off"),
			Doc: "how GPU containers may read what is mounted into them on a host with SELinux: relabel has the engine label it as docker run -v PATH:z does, disable runs them without confinement by SELinux, off changes nothing; auto relabels where the engine says that it uses SELinux"},
		{Name: "whisk.gpu.docker.log-dirs", Default: "/containers", value: list(&d.LogDirs),
			Doc: "where the engine's containers directory may be mounted; log files are read there, else below its own root, else over the API"},
		{Name: "whisk.gpu.docker.cap-drop", Default: "NET_RAW,NET_ADMIN", value: list(&d.CapDrop),
			Doc: "capabilities that action containers lose; ALL takes every one"},
		{Name: "whisk.gpu.docker.cap-add", value: list(&d.CapAdd),
			Doc: "capabilities that action containers keep although ALL are dropped"},
		{Name: "whisk.gpu.docker.pids-limit", Default: "1024", value: integer(&d.PidsLimit, 1, 4_194_304),
			Doc: "processes that an action container may have"},
		{Name: "whisk.docker.client.parallel-runs", Default: "10", value: integer(&d.ParallelRuns, -1, 1000),
			Doc: "container creations under way at once, but no more than Docker's host has processors, or two; 0 or less means no bound"},
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
	// Dir holds the working directories of action processes; empty means the
	// system's temporary directory.
	Dir string
	// Proxies is the directory of the action proxies; empty means the ones
	// that come with the program.
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
	// Kind is "docker" or "process".
	Kind string
	// Manifest is the runtimes manifest, JSON text as given.
	Manifest string
	// Registry and UserRegistry lead image names that name no registry.
	Registry     string
	UserRegistry string
	// BypassPullForLocalImages treats images with LocalImagePrefix as native.
	BypassPullForLocalImages bool
	LocalImagePrefix         string
	// API is the address actions are told to call back.
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
