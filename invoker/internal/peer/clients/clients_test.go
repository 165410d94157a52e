package clients

import (
	"log/slog"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/containerd"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

var quiet = slog.New(slog.DiscardHandler)

// TestDocker: every setting of the engine and its containers becomes an option. Without
// a setting the option has its default.
func TestDocker(t *testing.T) {
	c := config.Default()
	c.Containers = config.Containers{
		Network: "net", DNSServers: []string{"10.0.0.1"}, DNSSearch: []string{"search"}, DNSOptions: []string{"option"},
		ExtraArgs: map[string][]string{"env": {"A=1"}},
	}
	c.Docker = config.Docker{
		Host: "tcp://d:1", CertDir: "/certs", Registries: []string{"r"}, Logins: "/logins", Devices: "cdi", SELinux: "off",
		LogDirs: []string{"/logs"}, ParallelRuns: 3, CapDrop: []string{"ALL"}, CapAdd: []string{"SYS_NICE"}, PidsLimit: 7,
		Timeouts: config.DockerTimeouts{Run: 1, Remove: 2, Pull: 3, List: 4, Inspect: 5, Pause: 6, Resume: config.Forever},
	}
	want := docker.DefaultOptions()
	times := want.Timeouts
	times.Create, times.Remove, times.Pull, times.List, times.Inspect, times.Pause, times.Unpause = 1, 2, 3, 4, 5, 6, config.Forever
	want = docker.Options{
		Host: "tcp://d:1", CertDir: "/certs", Prefix: "wsk0_", Network: "net",
		DNSServers: []string{"10.0.0.1"}, DNSSearch: []string{"search"}, DNSOptions: []string{"option"},
		ExtraArgs: map[string][]string{"env": {"A=1"}}, CapDrop: []string{"ALL"}, CapAdd: []string{"SYS_NICE"}, PidsLimit: 7,
		LogDriver: want.LogDriver, MaxLogBytes: 11 << 20, Devices: "cdi", SELinux: "off", Registries: []string{"r"}, Logins: "/logins",
		ParallelCreates: 3, Timeouts: times, LogDirs: []string{"/logs"}, LogWaits: want.LogWaits, Logger: quiet,
	}
	check.DeepEqual(t, Docker(c, "wsk0_", quiet), want)
	c.Logs.OutOfBand = true
	check.Equal(t, Docker(c, "", quiet).LogDriver, "")
}

// TestContainerd: every setting of the engine and its containers becomes an option.
func TestContainerd(t *testing.T) {
	c := config.Default()
	check.DeepEqual(t, Containerd(c, "wsk", "/gpuwhisk", nil).Subnets, containerd.DefaultOptions().Subnets)
	c.Containers = config.Containers{
		DNSServers: []string{"10.0.0.1"}, DNSSearch: []string{"search"}, DNSOptions: []string{"option"},
		ExtraArgs: map[string][]string{"env": {"A=1"}},
	}
	c.Docker = config.Docker{
		Registries: []string{"r"}, Logins: "/logins", ParallelRuns: 3, CapDrop: []string{"ALL"}, CapAdd: []string{"SYS_NICE"}, PidsLimit: 7,
		Timeouts: config.DockerTimeouts{Run: 1, Remove: 2, Pull: 3, List: 4, Inspect: 5, Pause: 6, Resume: config.Forever},
	}
	c.Containerd = config.Containerd{
		Socket: "/s", Snapshotter: "native", StateDir: "/state", RunDir: "/run", HostsDir: "/hosts", Config: "/config.toml", Bridge: "b",
		Subnet: []string{"10.0.0.0/24"}, PluginDirs: []string{"/cni"}, Init: "none",
	}
	want := containerd.DefaultOptions()
	times := want.Timeouts
	times.Create, times.Remove, times.Pull, times.List, times.Inspect, times.Pause, times.Unpause = 1, 2, 3, 4, 5, 6, config.Forever
	want = containerd.Options{
		Socket: "/s", Prefix: "wsk0_", LogProgram: "/gpuwhisk", StateDir: "/state", RunDir: "/run", Snapshotter: "native", HostsDir: "/hosts", Config: "/config.toml",
		Bridge: "b", Subnets: []string{"10.0.0.0/24"}, PluginDirs: []string{"/cni"}, Init: "none",
		DNSServers: []string{"10.0.0.1"}, DNSSearch: []string{"search"}, DNSOptions: []string{"option"},
		ExtraArgs: map[string][]string{"env": {"A=1"}}, CapDrop: []string{"ALL"}, CapAdd: []string{"SYS_NICE"}, PidsLimit: 7,
		MaxLogBytes: 11 << 20, CDIDirs: want.CDIDirs, Registries: []string{"r"}, Logins: "/logins",
		ParallelCreates: 3, Timeouts: times, LogWaits: want.LogWaits, Logger: quiet,
	}
	check.DeepEqual(t, Containerd(c, "wsk0_", "/gpuwhisk", quiet), want)
	c.Containerd.LogProgram = "/static/gpuwhisk"
	check.Equal(t, Containerd(c, "", "/gpuwhisk", quiet).LogProgram, "/static/gpuwhisk")
}

// TestEngine: containerd is chosen where it is set, and by itself only on a host without
// Docker.
func TestEngine(t *testing.T) {
	const docker, usual, k3s = "var/run/docker.sock", "run/containerd/containerd.sock", "run/k3s/containerd/containerd.sock"
	for _, tt := range []struct {
		sockets     []string
		set         string
		host, named string
		want        string
	}{
		{nil, "auto", "", "", EngineDocker},
		{[]string{docker}, "auto", "", "", EngineDocker},
		{[]string{docker, usual}, "auto", "", "", EngineDocker},
		{[]string{usual}, "auto", "", "", EngineContainerd},
		{[]string{k3s}, "auto", "", "", EngineContainerd},
		{[]string{usual}, "auto", "tcp://docker:2375", "", EngineDocker},
		{[]string{usual}, "auto", "", "/missing.sock", EngineDocker},
		{[]string{"own.sock"}, "auto", "", "/own.sock", EngineContainerd},
		{[]string{docker}, "containerd", "", "", EngineContainerd},
		{[]string{usual}, "docker", "", "", EngineDocker},
	} {
		files := fstest.MapFS{}
		for _, socket := range tt.sockets {
			files[socket] = &fstest.MapFile{}
		}
		c := config.Default()
		c.Containers.Engine, c.Docker.Host, c.Containerd.Socket = tt.set, tt.host, tt.named
		check.Equal(t, Engine(c, files), tt.want, "%+v", tt)
	}
}

func TestEtcd(t *testing.T) {
	c := config.Default().Scheduler
	c.Cluster = "c"
	c.Etcd = config.Etcd{Hosts: []string{"e:1"}, Username: "u", Password: "p", LeaseTimeout: 7, RetryInterval: time.Minute}
	want := etcd.Config{Hosts: []string{"e:1"}, Username: "u", Password: "p", TTL: 7 * time.Second, Cluster: "c", RetryInterval: time.Minute, Log: quiet}
	check.DeepEqual(t, Etcd(c, quiet), want)
}

// TestCouchDB: there is a database of records where they go there.
func TestCouchDB(t *testing.T) {
	c := config.Default()
	c.CouchDB = config.CouchDB{Protocol: "https", Host: "::1", Port: 6984, Username: "u", Password: "p", Entities: "e", Subjects: "s", Activations: "a"}
	got := CouchDB(c, quiet)
	check.Equal(t, got.URL, "https://[::1]:6984")
	check.Equal(t, got.Whisks, "e")
	check.Equal(t, got.Subjects, "s")
	check.Equal(t, got.Activations, "a")
	check.Equal(t, got.Username, "u")
	check.Equal(t, got.Password, "p")
	for what, change := range map[string]func(*config.Records){
		"dropped":   func(r *config.Records) { r.Discard = true },
		"elsewhere": func(r *config.Records) { r.Store = config.StoreCouchbase },
	} {
		other := config.Default()
		other.CouchDB = c.CouchDB
		change(&other.Records)
		if got := CouchDB(other, quiet); got.Activations != "" {
			t.Errorf("where records are %s, there is the database %s", what, got.Activations)
		}
	}
}

// TestKafka: faults of key stores and logins are errors before any connection is made.
func TestKafka(t *testing.T) {
	c := config.Default().Kafka
	c.Hosts = []string{"127.0.0.1:1"}
	_, err := Kafka(c, "test", quiet)
	check.NoError(t, err, "in plain text")
	c.SecurityProtocol = "SASL_PLAINTEXT"
	_, err = Kafka(c, "test", quiet)
	check.ErrorContains(t, err, "sasl-mechanism", "without a login")
	c.SecurityProtocol, c.TLS.TruststoreLocation, c.TLS.TruststorePassword = "SSL", "/nowhere/trust.jks", "pass-w0rd"
	_, err = Kafka(c, "test", quiet)
	check.ErrorContains(check.Must(t), err, "trust.jks", "without a store")
	check.Lacks(t, err.Error(), "pass-w0rd")
}
