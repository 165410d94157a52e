package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/go-units"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/containerd"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
)

// Machine is the host as the checks see it. Here connects it to the host of this
// process. Every call is safe for concurrent use and should end with its context; a call
// that does not is abandoned.
type Machine struct {
	// Config is the invoker's configuration, and ConfigErr the error of loading it.
	// Environ is its environment.
	Config    *config.Config
	ConfigErr error
	Environ   []string
	// Source is the file with the settings, empty for the environment.
	Source string
	// ProbeImages are images to run briefly. ShimImages are images to examine for the
	// shim, and to run with it.
	ProbeImages, ShimImages []string
	// ProbeLimit limits each of these runs, and the run of Hooks.
	ProbeLimit time.Duration

	// Here sets the fields below. Shim lists the paths of the shim library, of which the
	// first existing one is used.
	Shim []string
	// Arch is the processor architecture by its Go name.
	Arch string
	Now  time.Time

	// Files is the root file system.
	Files fs.FS
	// Command runs a program and returns its output, including standard error.
	Command func(ctx context.Context, env []string, name string, args ...string) (string, error)
	// self is the path of this program.
	self string
	// GPU queries the driver.
	GPU func(ctx context.Context) (GPU, error)
	// Hooks runs a program that uses CUDA under the shim library. driver is the
	// directory of a libcuda.so.1, empty for the host's own.
	Hooks func(ctx context.Context, library, driver string) (Tried, error)
	// Docker surveys Docker, where that is the engine. If that works, Image returns an
	// image and whether it exists, and Libc returns its C library. DefaultLogs returns the
	// log settings of a container of the image that requests none.
	Docker      func(ctx context.Context) (docker.Survey, error)
	Image       func(ctx context.Context, reference string) (docker.Image, bool, error)
	Libc        func(ctx context.Context, reference string) (docker.Libc, error)
	DefaultLogs func(ctx context.Context, reference string) (docker.LogSettings, error)
	// Containerd surveys containerd, where that is the engine.
	Containerd func(ctx context.Context) (containerd.Survey, error)
	// Network examines the network of action containers.
	Network func(ctx context.Context) (docker.Isolation, error)
	// Probe runs an image and checks that it speaks OpenWhisk's protocol of actions.
	Probe func(ctx context.Context, reference string) (string, error)
	// Look runs an image with the shim library and a test action, and returns what the
	// action sees in its process.
	Look func(ctx context.Context, reference, library string) (Inside, error)
	// Broker queries one Kafka broker. Reach checks that an address accepts connections.
	Broker func(ctx context.Context, address string) (kafka.ClusterInfo, error)
	Reach  func(ctx context.Context, address string) error
	// Couch surveys the database server. ZooKeeper returns the invokers' numbers.
	Couch func(ctx context.Context) (couchdb.Survey, error)
	// Etcd surveys etcd, in scheduler mode.
	Etcd func(ctx context.Context) (etcd.Survey, error)
	// Bucket checks access to the bucket of code, if one is configured.
	Bucket func(ctx context.Context) error
	// Records checks the record store, if it is not CouchDB.
	Records   func(ctx context.Context) error
	ZooKeeper func(ctx context.Context) (map[string]int, error)
	// Listen checks that a port is free. Ping returns the answer of the admin port.
	Listen func(ctx context.Context, port int) error
	Ping   func(ctx context.Context, a config.Admin) (status int, text string, err error)
	// Disk returns the free and the total bytes of a path's file system.
	Disk func(ctx context.Context, path string) (Space, error)
	// Writable checks that this user may write in a directory or create it. at is the
	// nearest existing directory.
	Writable func(ctx context.Context, path string) (at string, err error)
}

// GPU is the driver's report.
type GPU struct {
	Versions nvml.Versions
	Cards    []nvml.Card
}

// Space is the capacity of a file system, in bytes.
type Space struct{ Free, Total int64 }

// broker is the report of one Kafka broker.
type broker struct {
	address string
	kafka.ClusterInfo
	err error
}

func (b broker) answers() bool { return b.err == nil }

// snapshot is a machine with the answers that several checks need.
type snapshot struct {
	*Machine
	ctx context.Context // of the check that uses this copy

	engine        string // name of the container engine
	gpu           GPU
	gpuErr        error
	docker        docker.Survey
	dockerErr     error
	containerd    containerd.Survey
	containerdErr error
	brokers       []broker
	couch         couchdb.Survey
	couchErr      error
	etcd          etcd.Survey
	etcdErr       error
	manifest      *activation.Manifest
	manifestErr   error
}

// gather asks all questions about the configured parts at the same time.
func gather(ctx context.Context, m *Machine, limit time.Duration) snapshot {
	s := snapshot{Machine: m}
	s.manifest, s.manifestErr = m.Config.Runtimes.ParseManifest()
	s.engine, _ = bounded(ctx, limit, func(context.Context) (string, error) { return clients.Engine(m.Config, m.Files), nil })
	var wg sync.WaitGroup
	ask := func(configured bool, question func()) {
		if configured {
			wg.Go(question)
		}
	}
	ask(true, func() { s.gpu, s.gpuErr = bounded(ctx, limit, m.GPU) })
	ask(s.usesDocker(), func() { s.docker, s.dockerErr = bounded(ctx, limit, m.Docker) })
	ask(s.usesContainerd(), func() { s.containerd, s.containerdErr = bounded(ctx, limit, m.Containerd) })
	ask(true, func() {
		s.brokers = each(m.Config.Kafka.Hosts, func(at string) broker {
			d, err := bounded(ctx, limit, func(ctx context.Context) (kafka.ClusterInfo, error) { return m.Broker(ctx, at) })
			return broker{at, d, err}
		})
	})
	ask(m.Config.CouchDB.Host != "", func() { s.couch, s.couchErr = bounded(ctx, limit, m.Couch) })
	ask(s.scheduled(), func() { s.etcd, s.etcdErr = bounded(ctx, limit, m.Etcd) })
	wg.Wait()
	return s
}

// bounded asks one question, and abandons it after the limit.
func bounded[T any](ctx context.Context, limit time.Duration, question func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1) // buffered, so that a late answer does not block
	go func() {
		v, err := question(ctx)
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		if a.err != nil && ctx.Err() != nil {
			a.err = fmt.Errorf("%w: %w", context.Cause(ctx), a.err)
		}
		return a.value, a.err
	case <-ctx.Done():
		return answer{}.value, context.Cause(ctx)
	}
}

// each applies do to several items at once.
func each[A, B any](things []A, do func(A) B) []B {
	results := make([]B, len(things))
	var wg sync.WaitGroup
	for i, thing := range things {
		wg.Go(func() { results[i] = do(thing) })
	}
	wg.Wait()
	return results
}

// usesContainers is false for the process runtime, which needs no engine.
func (s *snapshot) usesContainers() bool { return !s.Config.Runtimes.Processes() }
func (s *snapshot) usesContainerd() bool {
	return s.usesContainers() && s.engine == clients.EngineContainerd
}
func (s *snapshot) usesDocker() bool    { return s.usesContainers() && !s.usesContainerd() }
func (s *snapshot) dockerAnswers() bool { return s.usesDocker() && s.dockerErr == nil }

// hasDriver reports whether there is any sign of a driver.
func (s *snapshot) hasDriver() bool {
	return s.driverVersion() != "" || s.exists("dev/nvidiactl") || s.gpuErr == nil
}

func (s *snapshot) gpuInContainers() bool { return s.hasDriver() && s.usesContainers() }
func (s *snapshot) gpuByDocker() bool     { return s.hasDriver() && s.dockerAnswers() }
func (s *snapshot) gpuByContainerd() bool { return s.hasDriver() && s.usesContainerd() }

func (s *snapshot) kafkaAnswers() bool {
	return slices.ContainsFunc(s.brokers, broker.answers)
}

func (s *snapshot) couchAnswers() bool { return s.Config.CouchDB.Host != "" && s.couchErr == nil }

// scheduled reports whether OpenWhisk's scheduler mode is configured.
func (s *snapshot) scheduled() bool {
	return s.Config.Scheduler.Enabled && len(s.Config.Scheduler.Etcd.Hosts) > 0
}

func (s *snapshot) etcdAnswers() bool      { return s.scheduled() && s.etcdErr == nil }
func (s *snapshot) recordsElsewhere() bool { return s.Config.RecordsOutsideCouchDB() }
func (s *snapshot) codeInS3() bool         { return s.Config.S3.Enabled }

// configured reports whether any setting of a deployment was given.
func (s *snapshot) configured() bool {
	c := s.Config
	return len(c.Kafka.Hosts) > 0 || c.CouchDB.Host != "" || c.Runtimes.Manifest != "" || c.Identity.ID != nil || c.Identity.UniqueName != ""
}

// inRoot converts an absolute path to a path in Files.
func inRoot(name string) string { return strings.TrimPrefix(name, "/") }

func (m *Machine) exists(name string) bool {
	_, err := fs.Stat(m.Files, inRoot(name))
	return err == nil
}

// read returns the text of a file, "" if it does not exist.
func (m *Machine) read(name string) string {
	text, _ := fs.ReadFile(m.Files, inRoot(name))
	return string(text)
}

func (m *Machine) glob(pattern string) []string {
	names, _ := fs.Glob(m.Files, inRoot(pattern)) // the only error is a malformed pattern
	return names
}

// commandTime is less than the limit of a check, so that a command that hangs can be
// told from a check that hangs.
const commandTime = 2 * time.Second

// run runs a command of a check, for at most commandTime.
func (s *snapshot) run(env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.ctx, commandTime)
	defer cancel()
	return s.Command(ctx, env, name, args...)
}

// amount formats a number of bytes for people.
func amount[T ~int64](n T) string {
	text := units.CustomSize("%.1f %s", float64(n), 1024, []string{"B", "KiB", "MiB", "GiB"})
	return strings.Replace(text, ".0 ", " ", 1)
}
