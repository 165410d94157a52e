package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

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
	// ProbeImages are images to run for a moment, LibcImages those whose C
	// library is examined.
	ProbeImages, LibcImages []string
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
	// Docker, Image and Probe ask the container engine. Probe runs an image
	// and asks whether it speaks OpenWhisk's protocol of actions.
	Docker func(ctx context.Context) (docker.Survey, error)
	Image  func(ctx context.Context, reference string) (Image, error)
	Probe  func(ctx context.Context, reference string) (string, error)
	// Libc inspects an image's C library.
	Libc func(ctx context.Context, reference string) (docker.Libc, error)
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
	// Listen reports whether a port is free; Ping what an invoker on it answers.
	Listen func(ctx context.Context, port int) error
	Ping   func(ctx context.Context, port int) error
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

// answer is what a question got.
type answer[T any] struct {
	value T
	err   error
}

// Image is what the engine reports of an image.
type Image struct {
	docker.Image
	There bool
}

// Snapshot are a machine and its answers.
type Snapshot struct {
	*Machine
	gpu        answer[GPU]
	hooks      answer[Tried]
	manifest   answer[*activation.Manifest]
	docker     answer[docker.Survey]
	images     map[string]answer[Image]
	probes     map[string]answer[string]
	libcs      map[string]answer[docker.Libc]
	brokers    map[string]answer[kafka.Description]
	advertised map[string]error // brokers' addresses as the cluster advertises them
	couch      answer[couchdb.Survey]
	etcd       answer[etcd.Survey]
	schedulers map[string]answer[struct{}] // by their address
	records    error
	bucket     error
	zoo        answer[map[string]int]
	port       error
	pinged     error
}

// ask puts one question, and gives up on it after the limit.
func ask[T any](ctx context.Context, limit time.Duration, question func(context.Context) (T, error)) answer[T] {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan answer[T], 1) // so that a late answer does not block
	go func() {
		v, err := question(ctx)
		done <- answer[T]{v, err}
	}()
	select {
	case a := <-done:
		if a.err != nil && ctx.Err() != nil {
			a.err = fmt.Errorf("no answer within %v: %w", limit, a.err)
		}
		return a
	case <-ctx.Done():
		// The context ends a little before most calls notice.
		select {
		case a := <-done:
			return a
		default:
			return answer[T]{err: fmt.Errorf("no answer within %v", limit)}
		}
	}
}

// askError puts a question that is answered by an error or none.
func askError(ctx context.Context, limit time.Duration, question func(context.Context) error) error {
	return ask(ctx, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, question(ctx) }).err
}

// gather puts all questions at once.
func gather(ctx context.Context, m *Machine, limit time.Duration) *Snapshot {
	f := &Snapshot{Machine: m}
	f.manifest = readManifest(m.Config)
	var wg sync.WaitGroup
	wg.Go(func() { f.gpu = ask(ctx, limit, m.GPU) })
	wg.Go(func() { f.hooks = ask(ctx, max(limit, m.ProbeLimit), f.tryShim) })
	if f.usesDocker() {
		wg.Go(func() { f.docker = ask(ctx, limit, m.Docker) })
		wg.Go(func() { f.images = askEach(ctx, limit, f.references(), f.Image) })
		wg.Go(func() { f.libcs = askEach(ctx, m.ProbeLimit, m.LibcImages, m.Libc) })
		wg.Go(func() { f.probes = askEach(ctx, m.ProbeLimit, m.ProbeImages, m.Probe) })
	}
	wg.Go(func() { f.askKafka(ctx, limit) })
	if m.Config.CouchDB.Host != "" {
		wg.Go(func() { f.couch = ask(ctx, limit, m.Couch) })
	}
	if f.scheduled() {
		wg.Go(func() { f.askSchedulers(ctx, limit) })
	}
	if m.Config.S3.Enabled {
		wg.Go(func() { f.bucket = askError(ctx, limit, m.Bucket) })
	}
	if m.Config.RecordsOutsideCouchDB() {
		wg.Go(func() { f.records = askError(ctx, limit, m.Records) })
	}
	if f.usesZooKeeper() {
		wg.Go(func() { f.zoo = ask(ctx, limit, m.ZooKeeper) })
	}
	wg.Go(func() { f.askPort(ctx, limit) })
	wg.Wait()
	return f
}

// askEach puts one question about each of several things at once.
func askEach[T any](ctx context.Context, limit time.Duration, things []string, question func(context.Context, string) (T, error)) map[string]answer[T] {
	answers := make([]answer[T], len(things))
	var wg sync.WaitGroup
	for i, thing := range things {
		wg.Go(func() {
			answers[i] = ask(ctx, limit, func(ctx context.Context) (T, error) { return question(ctx, thing) })
		})
	}
	wg.Wait()
	all := make(map[string]answer[T], len(things))
	for i, thing := range things {
		all[thing] = answers[i]
	}
	return all
}

// askKafka asks every broker, and then whether the addresses that they advertise
// can be reached from here: clients use those.
func (f *Snapshot) askKafka(ctx context.Context, limit time.Duration) {
	f.brokers = askEach(ctx, limit, f.Config.Kafka.Hosts, f.Broker)
	var configured []string
	for _, b := range f.brokers {
		configured = append(configured, b.value.Brokers...)
	}
	slices.Sort(configured)
	configured = slices.Compact(configured)
	reached := askEach(ctx, limit, configured, func(ctx context.Context, at string) (struct{}, error) {
		return struct{}{}, f.Reach(ctx, at)
	})
	f.advertised = make(map[string]error, len(reached))
	for at, a := range reached {
		f.advertised[at] = a.err
	}
}

// askPort asks whether the admin port is free, and if not, whether that is
// because an invoker runs already.
func (f *Snapshot) askPort(ctx context.Context, limit time.Duration) {
	on := f.Config.Admin.Port
	f.port = askError(ctx, limit, func(ctx context.Context) error { return f.Listen(ctx, on) })
	if f.port != nil {
		f.pinged = askError(ctx, limit, func(ctx context.Context) error { return f.Ping(ctx, on) })
	}
}

// usesDocker: plain processes need no engine.
func (f *Snapshot) usesDocker() bool { return f.Config.Runtimes.Kind != "process" }

func (f *Snapshot) usesZooKeeper() bool {
	id := f.Config.Identity
	return id.ID == nil && id.UniqueName != "" && id.ZooKeeperHosts != ""
}

// configured reports whether anything of a deployment was given at all.
func (m *Machine) configured() bool {
	c := m.Config
	return len(c.Kafka.Hosts) > 0 || c.CouchDB.Host != "" || c.Runtimes.Manifest != "" || c.Identity.ID != nil || c.Identity.UniqueName != ""
}

func (m *Machine) exists(name string) bool {
	_, err := fs.Stat(m.Files, name)
	return err == nil
}

// read is the text of a file, empty where there is none.
func (m *Machine) read(name string) string {
	text, err := fs.ReadFile(m.Files, name)
	if err != nil {
		return ""
	}
	return string(text)
}

func (m *Machine) glob(pattern string) []string {
	names, _ := fs.Glob(m.Files, pattern) // only a malformed pattern is an error
	return names
}
