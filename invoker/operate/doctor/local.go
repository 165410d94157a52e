package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/proxy"
	"github.com/gpuwhisk/gpuwhisk/invoker/peer/stores"
	"github.com/gpuwhisk/gpuwhisk/invoker/peer/tlsstore"
	"github.com/gpuwhisk/gpuwhisk/invoker/peer/zookeeper"
	"golang.org/x/sys/unix"
)

// Here completes a machine with its settings: it is the host that this process runs
// on. self is the path of this program, beside which the shim may lie; shim that of
// the shim library, and management that of the driver's management library, where
// they are not in the usual places.
func (m *Machine) Here(self, shim, management string) *Machine {
	m.Shim, m.Arch, m.Now = shimPaths(m.Config, self, shim), runtime.GOARCH, time.Now()
	m.Files, m.Command, m.Hooks = os.DirFS("/"), command, tryHooks
	m.GPU = func(ctx context.Context) (GPU, error) {
		g, err := askNVML(management)
		if errors.Is(err, nvml.ErrNotBuilt) {
			if g, smiErr := m.askSMI(ctx); smiErr == nil {
				return g, nil
			}
		}
		return g, err
	}
	m.Docker = func(ctx context.Context) (docker.Survey, error) {
		return askDocker(m.Config, func(d *docker.Daemon) (docker.Survey, error) { return d.Survey(ctx) })
	}
	m.Image = func(ctx context.Context, reference string) (i Image, err error) {
		return askDocker(m.Config, func(d *docker.Daemon) (Image, error) {
			i.Image, i.There, err = d.Image(ctx, reference)
			return i, err
		})
	}
	m.Libc = func(ctx context.Context, reference string) (docker.Libc, error) {
		return askDocker(m.Config, func(d *docker.Daemon) (docker.Libc, error) { return d.Libc(ctx, reference) })
	}
	m.Probe, m.Broker, m.Reach, m.Couch = m.probe, m.askBroker, reach, m.askCouch
	m.Records, m.Bucket, m.Etcd = m.askRecords, m.askBucket, m.askEtcd
	m.ZooKeeper = func(ctx context.Context) (map[string]int, error) {
		return zookeeper.Mapping(ctx, m.Config.Identity.ZooKeeperHosts)
	}
	m.Listen, m.Ping, m.Disk, m.Writable = listen, ping, disk, writable
	return m
}

// askSMI asks where this build has no NVML.
func (m *Machine) askSMI(ctx context.Context) (GPU, error) {
	cards, versions, err := nvml.AskSMI(ctx, func(ctx context.Context, name string, args ...string) (string, error) {
		return m.Command(ctx, nil, name, args...)
	})
	return GPU{versions, cards, "nvidia-smi"}, err
}

func askNVML(library string) (g GPU, err error) {
	d, err := nvml.Open(nvml.Options{Library: library})
	if err != nil {
		return GPU{}, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	cards, err := d.Cards()
	return GPU{Versions: d.Versions(), Cards: cards, By: "NVML"}, err
}

// command runs a program with a bound on what it may print.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(c.Environ(), env...)
	c.WaitDelay = time.Second // for children that keep its output open
	var out capped
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return string(out), err
}

// capped keeps the beginning of what is written to it.
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

// ping asks whether an invoker listens on a port of this host. Its answer may
// be that it is not ready.
func ping(ctx context.Context, port int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("localhost", strconv.Itoa(port))+"/ping", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 100))
	if err != nil {
		return err
	}
	if s := string(text); s != "pong" && !strings.HasPrefix(s, "not ready") {
		return fmt.Errorf("what answers /ping with status %d is no invoker", res.StatusCode)
	}
	return nil
}

func disk(_ context.Context, path string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Space{}, err
	}
	return Space{Free: int64(s.Bavail) * s.Bsize, Total: int64(s.Blocks) * s.Bsize}, nil
}

// noShim is the setting by which the shim is done without.
const noShim = "none"

// shimPaths are where the invoker searches for the shim.
func shimPaths(c *config.Config, self, named string) []string {
	if named = cmp.Or(named, c.GPU.Shim.Library); named == "" || named == noShim {
		return devices.LibraryPaths(self)
	}
	if absolute, err := filepath.Abs(named); err == nil {
		named = absolute
	}
	return []string{named}
}

// silent is for parts whose log repeats the report.
func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (m *Machine) askBroker(ctx context.Context, address string) (kafka.Description, error) {
	t, err := tlsstore.Kafka(m.Config.Kafka)
	if err != nil {
		return kafka.Description{}, err
	}
	login, err := m.Config.Kafka.Login()
	if err != nil {
		return kafka.Description{}, err
	}
	c, err := kafka.New(kafka.Options{Brokers: []string{address}, TLS: t, Login: (*kafka.Login)(login), ClientID: "gpuwhisk-doctor", Log: silent()})
	if err != nil {
		return kafka.Description{}, err
	}
	s, err := c.Describe(ctx)
	if id := m.Config.Identity.ID; err == nil && id != nil {
		own := fmt.Sprintf("%sinvoker%d", m.Config.Kafka.TopicPrefix, *id)
		if _, there := s.Topics[own]; there {
			// Without the right to read a topic's settings the rest counts.
			if retention, err := c.Retention(ctx, own); err == nil {
				s.Retention = map[string]time.Duration{own: retention.Time}
			}
		}
	}
	return s, err
}

func (m *Machine) askCouch(ctx context.Context) (couchdb.Survey, error) {
	d := m.Config.CouchDB
	if m.Config.RecordsOutsideCouchDB() {
		d.Activations = ""
	}
	return couchdb.Inspect(ctx, couchdb.Config{
		URL:      d.Protocol + "://" + net.JoinHostPort(d.Host, strconv.Itoa(d.Port)),
		Username: d.Username, Password: d.Password,
		Whisks: d.Entities, Subjects: d.Subjects, Activations: d.Activations,
	})
}

func (m *Machine) askRecords(ctx context.Context) error {
	s, err := stores.Records(m.Config, records.Config{}, silent())
	if err != nil || s == nil {
		return err
	}
	return errors.Join(s.Probe(ctx), s.Close())
}

func (m *Machine) askBucket(ctx context.Context) error {
	s, err := stores.Bucket(m.Config)
	if err != nil || s == nil {
		return err
	}
	defer s.Close()
	return s.Probe(ctx)
}

func dockerOptions(c *config.Config) docker.Options {
	o := docker.DefaultOptions()
	o.Host, o.CertDir = c.Docker.Host, c.Docker.CertDir
	o.Network = c.Containers.Network
	o.Logger = silent()
	return o
}

// askDocker puts a question to the container engine.
func askDocker[T any](c *config.Config, question func(*docker.Daemon) (T, error)) (answer T, err error) {
	d, err := docker.Connect(dockerOptions(c))
	if err != nil {
		return answer, err
	}
	answer, err = question(d)
	return answer, errors.Join(err, d.Close())
}

// probeMemory is what a probed image may use, in MiB: OpenWhisk's default for
// an action.
const probeMemory = 256

// probe runs an image as the invoker would and sends /init without code. A
// proxy answers that something is missing; anything else answers 404, or not
// at all.
func (m *Machine) probe(ctx context.Context, reference string) (output string, err error) {
	o := dockerOptions(m.Config)
	o.Prefix = "gpuwhisk-doctor"
	e, err := docker.New(ctx, o)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	tag := make([]byte, 4)
	_, _ = rand.Read(tag) // never fails
	name := o.Prefix + "_" + hex.EncodeToString(tag)
	// By name: a container that ended before it had an address is there, too.
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
		defer cancel()
		err = errors.Join(err, e.CleanUp(bye, name))
	}()
	h, err := e.Create(ctx, container.Spec{Name: name, Image: reference, MemoryMB: probeMemory, CPUShares: 256})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the engine, which closes the channel
		for id := range e.Died() {
			if id == h.ID {
				cancel(errEnded)
			}
		}
	}()
	return initProxy(ctx, h.Addr)
}

// errEnded is a container that did not wait for /init.
var errEnded = errors.New("its program ended by itself")

// removeTime bounds the removal of a probed container.
const removeTime = 10 * time.Second

// initProxy waits for the proxy and returns its answer.
func initProxy(ctx context.Context, address string) (string, error) {
	const most = 64 << 10 // of an answer that is a line long
	c := proxy.New(address, 1)
	defer c.Close()
	left := 10 * time.Second
	if end, bounded := ctx.Deadline(); bounded {
		left = time.Until(end) / 10 * 9
	}
	x := c.Init(ctx, []byte(`{"value":{}}`), left, proxy.Limit{Max: most, Truncation: most})
	switch {
	case errors.Is(context.Cause(ctx), errEnded):
		return "", errEnded
	case x.Err != nil:
		return "", fmt.Errorf("nothing answers on port 8080 after %v: %w", time.Since(x.Start).Round(time.Millisecond), x.Err)
	case x.Status == 404 || x.Status == 405:
		return "", fmt.Errorf("it answers /init with status %d", x.Status)
	}
	return fmt.Sprintf("answers /init after %v", cmp.Or(time.Since(x.Start).Round(time.Millisecond), time.Millisecond)), nil
}
