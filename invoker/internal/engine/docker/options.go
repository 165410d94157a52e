package docker

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"path/filepath"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// Options are how containers are made and how long the daemon may take.
// DefaultOptions holds the values of a stock deployment.
type Options struct {
	Host    string // such as unix:///var/run/docker.sock; empty: the platform's default
	CertDir string // ca.pem, cert.pem and key.pem for a TCP host; empty: no TLS

	// Prefix is the beginning of the names of this invoker's containers. When a daemon is
	// back, the engine compares the containers of this prefix with its roster.
	Prefix string

	// Network is the Docker network of action containers. OwnNetwork is made where it
	// is missing; sharedNetwork is Docker's default one.
	Network    string
	DNSServers []string
	DNSSearch  []string
	DNSOptions []string
	// ExtraArgs are further `docker run` options without their dashes. An
	// option that is also built in (cap-drop, ulimit, pids-limit,
	// security-opt, log-driver) replaces the built-in values.
	ExtraArgs map[string][]string
	CapDrop   []string
	CapAdd    []string
	PidsLimit int64
	LogDriver string // empty: the daemon's own; then Logs may find nothing
	// MaxLogBytes is the size at which the daemon rotates a json-file log; 0 leaves
	// that to the daemon's settings. logs.Files are kept. A log up to this
	// size can be read whole, whatever was printed before it.
	MaxLogBytes int64

	// Devices is how containers are given their GPU: one of the Devices
	// constants, empty for DevicesAuto. Files is the host's file system from
	// its root, where CDI specifications lie; nil is this process's own.
	Devices string
	Files   fs.FS
	// SELinux is the way in which SELinux lets GPU containers read their mounts: one of the
	// SELinux constants, empty for SELinuxAuto.
	SELinux string

	// Registries are the hosts that images may be pulled from, such as
	// docker.io; empty: any. Logins is a directory with the config.json that
	// docker login writes; empty: pulls are anonymous.
	Registries []string
	Logins     string
	// LocalImages has a user's image without a tag, which must be pulled elsewhere, run
	// from this host's copy where it cannot be pulled: for a developer's machine.
	LocalImages bool

	// Steps is called for pulls; nil: they are not reported.
	Steps func(step string, documents int) (ended func(err error))

	// ParallelCreates is how many creates may be under way at once at most,
	// first come first served; never more than the daemon's host has
	// processors, or two. 0 or less means no limit.
	ParallelCreates int
	Timeouts        roster.Timeouts

	// LogDirs are where the daemon's container directories may be
	// found, tried in order, and after them the one below the daemon's own
	// root. Where no log file can be read, logs are read through the API.
	LogDirs  []string
	LogWaits logs.Waits

	Logger *slog.Logger // nil: silent
}

// DefaultOptions are those of OpenWhisk's application.conf, with the hardening
// that it lacks.
func DefaultOptions() Options {
	return Options{
		Prefix:          "wsk",
		Network:         OwnNetwork,
		CapDrop:         []string{"NET_RAW", "NET_ADMIN"},
		PidsLimit:       1024,
		LogDriver:       "json-file",
		ParallelCreates: 10,
		Timeouts:        roster.DefaultTimeouts(),
		LogWaits:        logs.DefaultWaits(),
	}
}

func (o Options) connect() (*client.Client, error) {
	var opts []client.Opt
	if o.Host != "" {
		opts = append(opts, client.WithHost(o.Host))
	}
	if o.CertDir != "" {
		opts = append(opts, client.WithTLSClientConfig(
			filepath.Join(o.CertDir, "ca.pem"),
			filepath.Join(o.CertDir, "cert.pem"),
			filepath.Join(o.CertDir, "key.pem")))
	}
	return client.New(opts...)
}

// addresses reads the DNS servers.
func addresses(servers []string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, server := range servers {
		addr, err := netip.ParseAddr(server)
		if err != nil {
			return nil, fmt.Errorf("dns server %q is not an IP address", server)
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}
