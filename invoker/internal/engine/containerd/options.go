package containerd

import (
	"io/fs"
	"log/slog"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/bridge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// Namespace is the containerd namespace of action containers. A kubelet, Docker and ctr
// look into others.
const Namespace = "gpuwhisk"

// Options are how containers are made and how long the daemon may take.
// DefaultOptions holds the values of a stock deployment.
type Options struct {
	// Socket is the daemon's socket. Empty: the first of its usual places that exists.
	Socket string
	// Prefix is the beginning of the names of this invoker's containers.
	Prefix string
	// LogProgram is the program that writes the logs of containers: it calls logs.Copy with
	// the argument after logs.Command. containerd starts a copy of it in StateDir.
	LogProgram string
	// Init is a static program that is the first process of containers, as tini. Empty: the
	// first of the usual places that exists; "none": containers start without it.
	Init        string
	StateDir    string // containers' logs and files; shared by the invokers of a host
	RunDir      string // network namespaces; empty after a reboot
	Snapshotter string

	// Bridge is the network interface of the host to which all action containers are
	// connected, at most 15 bytes. Invokers of one host share it.
	Bridge     string
	Subnets    []string // the first that is unused here becomes the bridge's
	PluginDirs []string // of the CNI plugins bridge, host-local and loopback

	DNSServers []string
	DNSSearch  []string
	DNSOptions []string
	// ExtraArgs are further `docker run` options without their dashes. An
	// option that is also built in replaces the built-in values.
	ExtraArgs   map[string][]string
	CapDrop     []string
	CapAdd      []string
	PidsLimit   int64
	MaxLogBytes int64 // size at which a log is rotated, 0 for none. One older file is kept.

	// Files is the host's file system from its root, and CDIDirs are the directories of
	// CDI specifications in it.
	Files   fs.FS
	CDIDirs []string

	// HostsDir has the mirrors and certificates of registries in containerd's form
	// (certs.d). Empty: the first of its usual places that exists. Registries and Logins
	// are as for Docker.
	HostsDir   string
	Registries []string
	Logins     string
	// Config is containerd's own configuration. Its logins for registries and mirrors are
	// used for the hosts for which Logins has none. Empty: the first of its usual places that
	// exists.
	Config string

	// LocalImages has a user's image without a tag run from this host's copy where it
	// cannot be pulled: for a developer's machine.
	LocalImages bool

	// Steps is called for pulls; nil: they are not reported.
	Steps func(step string, documents int) (ended func(err error))

	ParallelCreates int // 0 or less means no limit
	Timeouts        roster.Timeouts
	LogWaits        logs.Waits
	Logger          *slog.Logger // nil: silent
}

// DefaultOptions are those of OpenWhisk's application.conf, with the hardening
// that it lacks.
func DefaultOptions() Options {
	return Options{
		Prefix:   "wsk",
		StateDir: "/var/lib/gpuwhisk/containerd", RunDir: "/run/gpuwhisk/containerd", Snapshotter: "overlayfs",
		Bridge: "gpuwhisk0", PluginDirs: []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"},
		Subnets: []string{"10.89.0.0/20", "172.30.240.0/20", "192.168.224.0/20", "10.213.0.0/20"},
		CapDrop: []string{"NET_RAW", "NET_ADMIN"}, PidsLimit: 1024,
		CDIDirs:         []string{"/etc/cdi", "/var/run/cdi"},
		ParallelCreates: 10,
		Timeouts:        roster.DefaultTimeouts(),
		LogWaits:        logs.DefaultWaits(),
	}
}

// bridge returns the settings of the containers' network.
func (o Options) bridge() bridge.Options {
	return bridge.Options{Name: o.Bridge, Subnets: o.Subnets, PluginDirs: o.PluginDirs, Dir: o.RunDir, Invoker: strings.TrimSuffix(o.Prefix, "_")}
}

// The usual places of the daemon's socket, of its registries' settings and of its
// configuration: containerd's own, and those of k3s.
var (
	sockets   = []string{"/run/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock"}
	hostsDirs = []string{"/etc/containerd/certs.d", "/var/lib/rancher/k3s/agent/etc/containerd/certs.d"}
	configs   = []string{"/etc/containerd/config.toml", "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"}
)

// FindSocket returns the daemon's socket: the configured path, or else the first usual
// place that exists in files, or else containerd's own.
func FindSocket(files fs.FS, configured string) string { return find(files, configured, sockets) }

func find(files fs.FS, configured string, usual []string) string {
	if configured != "" {
		return configured
	}
	for _, path := range usual {
		if _, err := fs.Stat(files, strings.TrimPrefix(path, "/")); err == nil {
			return path
		}
	}
	return usual[0]
}
