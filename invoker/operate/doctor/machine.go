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
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/docker"
)

// Machine is a host as the checks see it. Here makes it the host that this
// process runs on. Every call may be made from many goroutines and should end
// with its context; one that does not is left behind.
type Machine struct {
	// Config is the invoker's configuration and ConfigErr what is wrong with
	// it. Environ is what it was loaded from.
	Config    *config.Config
	ConfigErr error
	Environ   []string
	// Source is the file that the settings come from; empty: the environment.
	Source string
	// ProbeImages are images to run for a moment, ShimImages those that are examined
	// for the shim, and run with it.
	ProbeImages, ShimImages []string
	// ProbeLimit bounds one of these runs, and that of Hooks.
	ProbeLimit time.Duration

	// Here fills in the rest. Shim are the paths where the shim library may be, the
	// first that exists counts.
	Shim []string
	// Arch is the processor's name as Go has it.
	Arch string
	Now  time.Time

	// Files is the file system from its root.
	Files fs.FS
	// Command runs a program and returns what it printed, errors included.
	Command func(ctx context.Context, env []string, name string, args ...string) (string, error)
	// GPU asks the driver.
	GPU func(ctx context.Context) (GPU, error)
	// Hooks runs a program that uses CUDA under the shim library. driver is
	// the directory of a libcuda.so.1 to take, empty for the host's own.
	Hooks func(ctx context.Context, library, driver string) (Tried, error)
	// Docker asks the container engine; only where it answers Image and Libc are
	// asked about an image, and whether it is there, and about its C library.
	Docker func(ctx context.Context) (docker.Survey, error)
	Image  func(ctx context.Context, reference string) (docker.Image, bool, error)
	Libc   func(ctx context.Context, reference string) (docker.Libc, error)
	// Network examines the network of action containers.
	Network func(ctx context.Context) (docker.Isolation, error)
	// Probe runs an image and asks whether it speaks OpenWhisk's protocol of actions.
	Probe func(ctx context.Context, reference string) (string, error)
	// Look runs an image with the shim library, and a small action in it, and returns
	// what the action finds in its own process.
	Look func(ctx context.Context, reference, library string) (Inside, error)
	// Broker asks one Kafka broker, Reach whether an address takes
	// connections.
	Broker func(ctx context.Context, address string) (kafka.Description, error)
	Reach  func(ctx context.Context, address string) error
	// Couch asks the database server, ZooKeeper for the invokers' numbers.
	Couch func(ctx context.Context) (couchdb.Survey, error)
	// Etcd asks etcd, in scheduler mode.
	Etcd func(ctx context.Context) (etcd.Survey, error)
	// Bucket asks the bucket of code, where there is one.
	Bucket func(ctx context.Context) error
	// Records asks the store of records, where that is not CouchDB.
	Records   func(ctx context.Context) error
	ZooKeeper func(ctx context.Context) (map[string]int, error)
	// Listen reports whether a port is free; Ping what answers on the admin port.
	Listen func(ctx context.Context, port int) error
	Ping   func(ctx context.Context, a config.Admin) (status int, text string, err error)
	// Disk returns the bytes free and in all of the file system of a path.
	Disk func(ctx context.Context, path string) (Space, error)
	// Writable reports whether this user may write in a directory, or make it:
	// at is the nearest one that is there.
	Writable func(ctx context.Context, path string) (at string, err error)
}

// GPU is what the driver reports.
type GPU struct {
	Versions nvml.Versions
	Cards    []nvml.Card
	// By names the source, such as NVML.
	By string
}

// Space is the capacity of a file system, in bytes.
type Space struct{ Free, Total int64 }

// broker is what one Kafka broker reports.
type broker struct {
	address string
	kafka.Description
	err error
}

func (b broker) answers() bool { return b.err == nil }

// snapshot is a machine, and the answers that several checks need.
type snapshot struct {
	*Machine
	ctx context.Context // of the check that has this copy

	gpu         GPU
	gpuErr      error
	docker      docker.Survey
	dockerErr   error
	brokers     []broker
	couch       couchdb.Survey
	couchErr    error
	etcd        etcd.Survey
	etcdErr     error
	manifest    *activation.Manifest
	manifestErr error
}

// gather puts all questions at once, of what is configured.
func gather(ctx context.Context, m *Machine, limit time.Duration) snapshot {
	s := snapshot{Machine: m}
	s.manifest, s.manifestErr = m.Config.Runtimes.ParseManifest()
	var wg sync.WaitGroup
	ask := func(configured bool, question func()) {
		if configured {
			wg.Go(question)
		}
	}
	ask(true, func() { s.gpu, s.gpuErr = bounded(ctx, limit, m.GPU) })
	ask(s.usesDocker(), func() { s.docker, s.dockerErr = bounded(ctx, limit, m.Docker) })
	ask(true, func() {
		s.brokers = each(m.Config.Kafka.Hosts, func(at string) broker {
			d, err := bounded(ctx, limit, func(ctx context.Context) (kafka.Description, error) { return m.Broker(ctx, at) })
			return broker{at, d, err}
		})
	})
	ask(m.Config.CouchDB.Host != "", func() { s.couch, s.couchErr = bounded(ctx, limit, m.Couch) })
	ask(s.scheduled(), func() { s.etcd, s.etcdErr = bounded(ctx, limit, m.Etcd) })
	wg.Wait()
	return s
}

// bounded puts one question, and gives up on it after the limit.
func bounded[T any](ctx context.Context, limit time.Duration, question func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1) // so that a late answer does not block
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

// each does something with several things at once.
func each[A, B any](things []A, do func(A) B) []B {
	results := make([]B, len(things))
	var wg sync.WaitGroup
	for i, thing := range things {
		wg.Go(func() { results[i] = do(thing) })
	}
	wg.Wait()
	return results
}

// usesDocker: plain processes need no engine.
func (s *snapshot) usesDocker() bool    { return !s.Config.Runtimes.Processes() }
func (s *snapshot) dockerAnswers() bool { return s.usesDocker() && s.dockerErr == nil }

// hasDriver reports whether there is a driver to examine further.
func (s *snapshot) hasDriver() bool {
	return s.driverVersion() != "" || s.exists("dev/nvidiactl") || s.gpuErr == nil
}

func (s *snapshot) gpuWithDocker() bool { return s.hasDriver() && s.usesDocker() }
func (s *snapshot) gpuByDocker() bool   { return s.hasDriver() && s.dockerAnswers() }

func (s *snapshot) kafkaAnswers() bool {
	return slices.ContainsFunc(s.brokers, broker.answers)
}

func (s *snapshot) couchAnswers() bool { return s.Config.CouchDB.Host != "" && s.couchErr == nil }

// scheduled reports OpenWhisk's scheduler mode.
func (s *snapshot) scheduled() bool {
	return s.Config.Scheduler.Enabled && len(s.Config.Scheduler.Etcd.Hosts) > 0
}

func (s *snapshot) etcdAnswers() bool      { return s.scheduled() && s.etcdErr == nil }
func (s *snapshot) recordsElsewhere() bool { return s.Config.RecordsOutsideCouchDB() }
func (s *snapshot) codeInS3() bool         { return s.Config.S3.Enabled }

// configured reports whether anything of a deployment was given at all.
func (s *snapshot) configured() bool {
	c := s.Config
	return len(c.Kafka.Hosts) > 0 || c.CouchDB.Host != "" || c.Runtimes.Manifest != "" || c.Identity.ID != nil || c.Identity.UniqueName != ""
}

// inRoot is a path as Files has it.
func inRoot(name string) string { return strings.TrimPrefix(name, "/") }

func (m *Machine) exists(name string) bool {
	_, err := fs.Stat(m.Files, inRoot(name))
	return err == nil
}

// read is the text of a file, empty where there is none.
func (m *Machine) read(name string) string {
	text, _ := fs.ReadFile(m.Files, inRoot(name))
	return string(text)
}

func (m *Machine) glob(pattern string) []string {
	names, _ := fs.Glob(m.Files, inRoot(pattern)) // only a malformed pattern is an error
	return names
}

// commandTime is less than the limit of a check, so that a command which hangs
// is distinguished from a check that does.
const commandTime = 2 * time.Second

// run runs a command of a check within that time.
func (s *snapshot) run(env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.ctx, commandTime)
	defer cancel()
	return s.Command(ctx, env, name, args...)
}

// amount writes a number of bytes for people.
func amount[T ~int64](n T) string {
	text := units.CustomSize("%.1f %s", float64(n), 1024, []string{"B", "KiB", "MiB", "GiB"})
	return strings.Replace(text, ".0 ", " ", 1)
}
