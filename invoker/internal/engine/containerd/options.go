package containerd

import (
	"io/fs"
	"log/slog"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// Namespace is the containerd namespace of action containers. A kubelet, Docker and ctr
// look into others.
const Namespace = "gpuwhisk"

// Options are how containers are made and how long the daemon may take.
// DefaultOptions holds the values of a stock deployment.
type Options struct {
	Socket string // of the daemon
	// Prefix is the beginning of the names of this invoker's containers.
	Prefix string
	// LogProgram is the program that writes the logs of containers: it calls CopyLog with
	// the argument after LogCommand. containerd starts it by this path.
	LogProgram  string
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
	// (certs.d). Registries and Logins are as for Docker.
	HostsDir   string
	Registries []string
	Logins     string

	// Steps is called for pulls; nil: they are not reported.
	Steps func(step string, documents int) (ended func(err error))

	ParallelCreates int // 0 or less means no limit
	Timeouts        Timeouts
	LogWaits        logs.Waits
	Logger          *slog.Logger // nil: silent
}

// Timeouts limits single operations. Zero means no limit.
type Timeouts struct {
	Create, Inspect, Pause, Unpause, Remove, List, Pull, Answer time.Duration
	// Settle is how long OOMKilled waits for a container to end that seems to run on.
	Settle time.Duration
}

// DefaultOptions are those of OpenWhisk's application.conf, with the hardening
// that it lacks.
func DefaultOptions() Options {
	return Options{
		Socket: "/run/containerd/containerd.sock", Prefix: "wsk",
		StateDir: "/var/lib/gpuwhisk/containerd", RunDir: "/run/gpuwhisk/containerd", Snapshotter: "overlayfs",
		Bridge: "gpuwhisk0", PluginDirs: []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"},
		Subnets: []string{"10.89.0.0/20", "172.30.240.0/20", "192.168.224.0/20", "10.213.0.0/20"},
		CapDrop: []string{"NET_RAW", "NET_ADMIN"}, PidsLimit: 1024,
		CDIDirs: []string{"/etc/cdi", "/var/run/cdi"}, HostsDir: "/etc/containerd/certs.d",
		ParallelCreates: 10,
		Timeouts: Timeouts{
			Create: time.Minute, Inspect: time.Minute,
			Pause: 10 * time.Second, Unpause: 10 * time.Second,
			Remove: time.Minute, List: time.Minute, Pull: 10 * time.Minute,
			Answer: 10 * time.Second, Settle: 5 * time.Second,
		},
		LogWaits: logs.DefaultWaits(),
	}
}
