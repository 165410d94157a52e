package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/containerd"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/zookeeper"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"golang.org/x/sys/unix"
)

// Here completes a machine that has its settings with the calls to the host of this
// process. self is the path of this program, which may have the shim beside it. shim and
// management are the paths of the shim library and of the driver's management library,
// empty for the usual paths.
func (m *Machine) Here(self, shim, management string) *Machine {
	m.Shim, m.Arch, m.Now = shimPaths(m.Config, self, shim), runtime.GOARCH, time.Now()
	m.Files, m.Command, m.self = os.DirFS("/"), command, self
	m.Hooks = func(ctx context.Context, library, driver string) (Tried, error) {
		return tryHooks(ctx, 5*time.Second, library, driver)
	}
	m.GPU = func(context.Context) (GPU, error) { return askNVML(management) }
	engine, err := docker.Connect(clients.Docker(m.Config, probePrefix, silent())) // connects at the first request
	m.Docker = func(ctx context.Context) (docker.Survey, error) {
		if err != nil {
			return docker.Survey{}, err
		}
		return engine.Survey(ctx)
	}
	m.Image, m.Libc, m.DefaultLogs = engine.Image, engine.Libc, engine.DefaultLogs
	m.Containerd = func(ctx context.Context) (containerd.Survey, error) {
		return containerd.Inspect(ctx, clients.Containerd(m.Config, probePrefix, self, silent()), m.Files)
	}
	m.ZooKeeper = func(ctx context.Context) (map[string]int, error) {
		return zookeeper.Mapping(ctx, m.Config.Identity.ZooKeeperHosts)
	}
	m.Couch = func(ctx context.Context) (couchdb.Survey, error) {
		return couchdb.Inspect(ctx, clients.CouchDB(m.Config, silent()))
	}
	m.Etcd = func(ctx context.Context) (etcd.Survey, error) {
		return etcd.Inspect(ctx, clients.Etcd(m.Config.Scheduler, silent()))
	}
	m.Probe, m.Look, m.Network, m.Broker = m.probe, m.look, m.network, m.askBroker
	m.Records, m.Bucket = m.askRecords, m.askBucket
	m.Listen, m.Reach, m.Ping, m.Disk, m.Writable = listen, reach, Ping, disk, writable
	return m
}

// shimPaths returns the paths at which the invoker searches for the shim.
func shimPaths(c *config.Config, self, named string) []string {
	if named = cmp.Or(named, c.GPU.Shim.Library); named == "" || named == config.None {
		return devices.LibraryPaths(self)
	}
	if absolute, err := filepath.Abs(named); err == nil {
		named = absolute
	}
	return []string{named}
}

// silent returns a logger for parts whose log would repeat the report.
func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func askNVML(library string) (g GPU, err error) {
	d, err := nvml.Open(nvml.Options{Library: library})
	if err != nil {
		return GPU{}, err
	}
	cards, err := d.Cards()
	return GPU{d.Versions(), cards}, errors.Join(err, d.Close())
}

// command runs a program and limits the size of its output.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(c.Environ(), env...)
	c.WaitDelay = time.Second // for children that keep the output open
	var out capped
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return string(out), err
}

// capped is a writer that keeps only the beginning.
type capped []byte

func (c *capped) Write(p []byte) (int, error) {
	const most = 64 << 10
	*c = append(*c, p[:min(len(p), most-len(*c))]...)
	return len(p), nil
}

func reach(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func listen(ctx context.Context, port int) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

func disk(_ context.Context, path string) (Space, error) {
	var s unix.Statfs_t
	err := unix.Statfs(path, &s)
	return Space{Free: int64(s.Bavail) * s.Bsize, Total: int64(s.Blocks) * s.Bsize}, err
}

// writable reports whether this user may write in a directory, or create it if it is
// missing. It creates nothing.
func writable(_ context.Context, dir string) (at string, err error) {
	for at = filepath.Clean(dir); ; at = filepath.Dir(at) {
		var s unix.Stat_t
		switch err := unix.Stat(at, &s); {
		case errors.Is(err, unix.ENOENT) && at != "/" && at != ".":
			continue
		case err != nil:
			return at, err
		case s.Mode&unix.S_IFMT != unix.S_IFDIR:
			return at, unix.ENOTDIR
		}
		return at, unix.Access(at, unix.W_OK|unix.X_OK)
	}
}

// ownTopicName returns the name of this invoker's topic.
func (m *Machine) ownTopicName() string { return m.Config.Kafka.TopicPrefix + m.instance().Topic() }

func (m *Machine) askBroker(ctx context.Context, address string) (d kafka.ClusterInfo, err error) {
	one := m.Config.Kafka
	one.Hosts = []string{address}
	c, err := clients.Kafka(one, "gpuwhisk-doctor", silent())
	if err != nil {
		return d, err
	}
	d, err = c.Describe(ctx)
	own := m.ownTopicName()
	if _, there := d.Topics[own]; err == nil && there {
		// A user without the right to read a topic's settings still gets the other
		// answers.
		if retention, err := c.Retention(ctx, own); err == nil {
			d.Retention = map[string]time.Duration{own: retention.Time}
		}
	}
	return d, err
}

func (m *Machine) askRecords(ctx context.Context) error {
	s, err := clients.Records(m.Config, records.Config{}, silent())
	if err != nil || s == nil {
		return err
	}
	return errors.Join(s.Probe(ctx), s.Close())
}

func (m *Machine) askBucket(ctx context.Context) error {
	s, err := clients.Bucket(m.Config)
	if err != nil || s == nil {
		return err
	}
	defer s.Close()
	return s.Probe(ctx)
}

// probePrefix begins the names of probe containers.
const probePrefix = "gpuwhisk-doctor_"

// errEnded means that a container ended before /init.
var errEnded = errors.New("its program ended by itself")

// probe runs an image as the invoker would, and sends /init without code. A proxy
// answers with an error about the missing code. Any other server answers 404 or not at
// all.
func (m *Machine) probe(ctx context.Context, reference string) (output string, err error) {
	spec := m.probeSpec(probeName(), reference)
	err = m.withContainer(ctx, spec, func(ctx context.Context, c *proxy.Client) (err error) {
		output, err = initProxy(ctx, c)
		return err
	})
	return output, err
}

// probeName returns a unique name for a container.
func probeName() string { return probePrefix + strings.ToLower(rand.Text()) }

// withContainer creates a container, calls use with a client of its proxy, and removes
// the container. The context of use is cancelled when the container ends.
func (m *Machine) withContainer(ctx context.Context, spec container.Spec, use func(context.Context, *proxy.Client) error) (err error) {
	e, err := m.openEngine(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	defer func() { err = errors.Join(err, removeProbes(ctx, e, spec.Name)) }()
	h, err := e.Create(ctx, spec)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends when the engine closes the channel
		for id := range e.Died() {
			if id == h.ID {
				cancel(errEnded)
			}
		}
	}()
	return use(ctx, proxy.NewDialing(h.Addr, 1, e.Dial))
}

// probeEngine is a container engine that runs probes.
type probeEngine interface {
	Create(ctx context.Context, spec container.Spec) (container.Handle, error)
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Died() <-chan container.ID
	CleanUp(ctx context.Context, prefix string) error
	Close() error
}

func (m *Machine) openEngine(ctx context.Context) (probeEngine, error) {
	if clients.Engine(m.Config, m.Files) != clients.EngineContainerd {
		return docker.New(ctx, clients.Docker(m.Config, probePrefix, silent()))
	}
	return containerd.New(ctx, clients.Containerd(m.Config, probePrefix, m.self, silent()))
}

// initProxy waits for the proxy and returns its answer.
func initProxy(ctx context.Context, c *proxy.Client) (string, error) {
	const most = 64 << 10 // the answer should be one line
	defer c.Close()
	left := 10 * time.Second
	if end, bounded := ctx.Deadline(); bounded {
		left = time.Until(end) / 10 * 9
	}
	x := c.Init(ctx, []byte(`{"value":{}}`), left, proxy.Limit{Max: most, Truncation: most})
	took := time.Since(x.Start).Round(time.Millisecond)
	switch {
	case errors.Is(context.Cause(ctx), errEnded):
		return "", errEnded
	case x.Err != nil:
		return "", fmt.Errorf("nothing answers on port 8080 after %v: %w", took, x.Err)
	case x.Status == 404 || x.Status == 405:
		return "", fmt.Errorf("it answers /init with status %d", x.Status)
	}
	return fmt.Sprintf("answers /init after %v", max(took, time.Millisecond)), nil
}
