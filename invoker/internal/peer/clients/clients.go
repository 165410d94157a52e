// Package clients creates the clients of a deployment's peers from its settings: Kafka,
// etcd, CouchDB, the other stores and the container engines. The invoker and the commands that examine
// a deployment both use it, so that a command sees the same as the invoker.
//
// The caller closes the clients. The adapters know the protocols.
package clients

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/containerd"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/tlsstore"
)

// Kafka is the cluster that a configuration names. It does not connect.
func Kafka(k config.Kafka, clientID string, log *slog.Logger) (*kafka.Cluster, error) {
	o := kafka.Options{Brokers: k.Hosts, ClientID: clientID, Log: log}
	if k.Encrypted() {
		t := k.TLS
		trust := tlsstore.File{Path: t.TruststoreLocation, Password: t.TruststorePassword}
		own := tlsstore.File{Path: t.KeystoreLocation, Password: t.KeystorePassword, KeyPassword: t.KeyPassword}
		var err error
		if o.TLS, err = tlsstore.Client(trust, own, t.EndpointIdentification != ""); err != nil {
			return nil, fmt.Errorf("open Kafka's key stores: %w", err)
		}
	}
	login, err := k.Login()
	if err != nil {
		return nil, err
	}
	o.Login = (*kafka.Login)(login)
	return kafka.New(o)
}

// Etcd returns the settings of the client of etcd. The caller adds the fields that only
// an invoker has.
func Etcd(c config.Scheduler, log *slog.Logger) etcd.Config {
	e := c.Etcd
	return etcd.Config{
		Hosts: e.Hosts, Username: e.Username, Password: e.Password, TTL: time.Duration(e.LeaseTimeout) * time.Second,
		Cluster: activation.Cluster(c.Cluster), RetryInterval: e.RetryInterval, Log: log,
	}
}

// CouchDB is how the database is used, which has records only where they go nowhere
// else. The caller adds how those are written.
func CouchDB(c *config.Config, log *slog.Logger) couchdb.Config {
	d := c.CouchDB
	if c.Records.Discard || c.RecordsOutsideCouchDB() {
		d.Activations = ""
	}
	return couchdb.Config{
		URL:      d.Protocol + "://" + net.JoinHostPort(d.Host, strconv.Itoa(d.Port)),
		Username: d.Username, Password: d.Password,
		Whisks: d.Entities, Subjects: d.Subjects, Activations: d.Activations,
		BlacklistInterval: c.Blacklist.PollInterval,
		CacheBytes:        int64(c.Actions.CacheBytes), CacheIdle: c.Actions.CacheTTL,
		Log: log,
	}
}

// Names of the container engines.
const (
	EngineDocker     = "docker"
	EngineContainerd = "containerd"
)

// dockerSocket is Docker's default socket.
const dockerSocket = "/var/run/docker.sock"

// Engine returns the name of the engine that runs action containers. If none is set, it is
// the one whose socket exists in files, the file system of this host; Docker if both or
// none exist.
func Engine(c *config.Config, files fs.FS) string {
	if set := c.Containers.Engine; set != "auto" {
		return set
	}
	exists := func(socket string) bool {
		_, err := fs.Stat(files, strings.TrimPrefix(socket, "/"))
		return err == nil
	}
	containerdSocket := containerd.FindSocket(files, c.Containerd.Socket)
	if c.Docker.Host == "" && !exists(dockerSocket) && exists(containerdSocket) {
		return EngineContainerd
	}
	return EngineDocker
}

// Containerd returns the settings of the engine of containerd, for the invoker whose
// containers' names begin with the prefix. self is the path of this program.
func Containerd(c *config.Config, prefix, self string, log *slog.Logger) containerd.Options {
	o := containerd.DefaultOptions()
	o.Prefix, o.Logger = prefix, log
	o.MaxLogBytes = c.MaxLogBytes()
	args := c.Containers
	o.DNSServers, o.DNSSearch, o.DNSOptions, o.ExtraArgs = args.DNSServers, args.DNSSearch, args.DNSOptions, args.ExtraArgs
	d := c.Docker
	o.Registries, o.Logins, o.ParallelCreates = d.Registries, d.Logins, d.ParallelRuns
	o.CapDrop, o.CapAdd, o.PidsLimit = d.CapDrop, d.CapAdd, int64(d.PidsLimit)
	t, limits := d.Timeouts, &o.Timeouts
	limits.Create, limits.Inspect, limits.List, limits.Remove, limits.Pull = t.Run, t.Inspect, t.List, t.Remove, t.Pull
	limits.Pause, limits.Unpause = t.Pause, t.Resume
	own := c.Containerd
	o.Socket, o.Snapshotter, o.StateDir, o.RunDir, o.HostsDir = own.Socket, own.Snapshotter, own.StateDir, own.RunDir, own.HostsDir
	o.Config = own.Config
	o.Bridge, o.Subnets, o.PluginDirs, o.Init = own.Bridge, own.Subnet, own.PluginDirs, own.Init
	o.LogProgram = own.LogProgram
	if o.LogProgram == "" {
		o.LogProgram = self
		if _, err := os.Stat(smallLogProgram); err == nil {
			o.LogProgram = smallLogProgram
		}
	}
	return o
}

// smallLogProgram is the program of the image and of the packages that writes containers'
// logs in a tenth of the memory of this program.
const smallLogProgram = "/usr/lib/gpuwhisk/gpuwhisk-log"

// Docker is how the engine is used and its containers are made, those of the
// invoker whose containers' names begin with the prefix.
func Docker(c *config.Config, prefix string, log *slog.Logger) docker.Options {
	o := docker.DefaultOptions()
	o.Prefix, o.Logger = prefix, log
	args := c.Containers
	o.Network = docker.NetworkOf(args.Network)
	o.DNSServers, o.DNSSearch, o.DNSOptions, o.ExtraArgs = args.DNSServers, args.DNSSearch, args.DNSOptions, args.ExtraArgs
	if c.Logs.OutOfBand {
		o.LogDriver = "" // the daemon's own driver carries the logs away
	}
	o.MaxLogBytes = c.MaxLogBytes()
	d := c.Docker
	o.Host, o.CertDir, o.LogDirs, o.Devices, o.SELinux = d.Host, d.CertDir, d.LogDirs, d.Devices, d.SELinux
	o.Registries, o.Logins, o.ParallelCreates = d.Registries, d.Logins, d.ParallelRuns
	o.CapDrop, o.CapAdd, o.PidsLimit = d.CapDrop, d.CapAdd, int64(d.PidsLimit)
	t, limits := d.Timeouts, &o.Timeouts
	limits.Create, limits.Inspect, limits.List, limits.Remove, limits.Pull = t.Run, t.Inspect, t.List, t.Remove, t.Pull
	limits.Pause, limits.Unpause = t.Pause, t.Resume
	return o
}
