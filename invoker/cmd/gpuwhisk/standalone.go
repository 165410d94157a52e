package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
)

// readyTime limits the start and drainTime the end. After slowTime, a line reports a
// slow start.
const (
	readyTime = 2 * time.Minute // Docker on a busy machine
	slowTime  = 15 * time.Second
	drainTime = 75 * time.Second // a blocking call may take a minute
)

// leastMax is the default memory of an action.
const leastMax = size(256 << 20)

// standaloneCmd runs a small OpenWhisk in one process.
type standaloneCmd struct {
	Port      int      `default:"3233" help:"Port of the REST API on the loopback interface; 0: any free port."`
	Data      string   `placeholder:"DIR" type:"path" help:"Where actions, records and queued work are kept (~/.gpuwhisk)."`
	Runtime   string   `default:"auto" enum:"auto,docker,process" help:"Run actions in Docker, or as plain processes (${enum})."`
	GPUs      int      `name:"gpus" default:"1" help:"Number of simulated GPUs."`
	GPUMemory size     `name:"gpu-memory" default:"16GB" help:"Memory of each simulated GPU."`
	Devices   string   `placeholder:"LIST" help:"GPUs of this machine instead of simulated ones: auto for all, or UUIDs and indexes. Needs a build with NVML (make build-gpu)."`
	FakeGPU   string   `name:"fake-driver" placeholder:"DIR" type:"existingdir" help:"Run functions of simulated GPUs under the shim on the fake driver in DIR (make shim-fake: build/shim/fake12), so that their memory really moves."`
	Shim      string   `placeholder:"FILE" type:"existingfile" help:"The shim's library, if it is not beside this program or in build/shim."`
	Tokens    int      `default:"2" help:"Runs at once on each GPU (D)."`
	Policy    string   `placeholder:"NAME" help:"Scheduling policy of GPU functions (sticky-plus)."`
	Memory    size     `default:"4GB" help:"Memory for all action containers together."`
	MemoryMax size     `name:"memory-max" default:"2GB" help:"Largest memory of one action (wsk action create -m)."`
	Kafka     string   `placeholder:"HOST:PORT" help:"Use these brokers instead of the embedded one."`
	CouchDB   string   `name:"couchdb" placeholder:"URL" env:"GPUWHISK_COUCHDB" help:"Use this database, http://USER:PASSWORD@HOST:PORT, instead of the embedded one; better given as GPUWHISK_COUCHDB, which other users of the machine do not see."`
	DBPrefix  string   `name:"db-prefix" default:"whisk_local_" help:"Prefix of the databases' names."`
	Namespace []string `placeholder:"NAME[:UUID:KEY]" env:"GPUWHISK_NAMESPACE" help:"A further namespace beside guest, or guest with a key of your choice; repeatable."`
	Runtimes  string   `placeholder:"FILE" type:"existingfile" help:"Runtimes manifest instead of the built-in one."`
	Set       []string `placeholder:"KEY=VALUE" sep:"none" help:"Set a key of the invoker (docs/configuration.md), such as whisk.gpu.pool-size=1; repeatable. CONFIG_whisk_... variables work too; --set overrides them."`
	Quiet     bool     `short:"q" help:"Print nothing but the wsk line and errors: no warnings."`
	Verbose   bool     `short:"v" help:"Show the invoker's log."`
}

// Help is the longer text of gpuwhisk standalone --help.
func (standaloneCmd) Help() string {
	return `One process with the REST API that wsk and the OpenWhisk client libraries use,
an embedded Kafka broker and database, and the invoker. For development: one
machine, no throttling, GPUs simulated unless --devices names real ones. The API
has actions, sequences, packages and activations; OpenWhisk's own controller also
has web actions, triggers, rules and compositions.
--set accepts every key of docs/configuration.md, to try a setting on a laptop.

  gpuwhisk standalone
  export WSK_CONFIG_FILE=~/.gpuwhisk/wskprops   # or the wsk line that it prints
  wsk action create hello hello.js && wsk action invoke hello --result

Each data directory has its own key for guest, which is created once. Scripts can set a
key: GPUWHISK_NAMESPACE=guest:UUID:KEY. Keys in a database of --couchdb are not changed.

Other users of the machine can see the arguments of a process, but not its environment:
give passwords in GPUWHISK_COUCHDB, GPUWHISK_NAMESPACE or CONFIG_whisk_...`
}

// Run serves until a signal arrives.
func (c standaloneCmd) Run() error {
	log := textLog(c.level())
	o, err := c.options(log)
	if err != nil {
		return err
	}
	if err := c.checkDevices(log); err != nil {
		return err
	}
	stopping := interrupted()
	ctx, cancel := context.WithTimeout(stopping, readyTime)
	defer cancel()
	slow := time.AfterFunc(slowTime, func() {
		c.report(fmt.Sprintf("not ready after %s, waiting up to %s (--verbose shows the invoker's log)", slowTime, readyTime))
	})
	defer slow.Stop()
	s, err := standalone.Start(ctx, o)
	if err != nil {
		return orInterrupted(stopping, err)
	}
	if err := s.WaitReady(ctx); err != nil {
		return orInterrupted(stopping, errors.Join(err, drain(s)))
	}
	slow.Stop()
	c.greet(os.Stdout, s)
	select {
	case <-stopping.Done():
		began := time.Now()
		c.report("stopping: running activations are finished, new ones are refused (a second signal after two seconds ends it at once)")
		err := drain(s)
		if err == nil {
			c.report("stopped after " + time.Since(began).Round(time.Millisecond).String() + "; actions and records are kept in " + s.Info().Data)
		}
		return err
	case err := <-s.Ended():
		return errors.Join(fmt.Errorf("the invoker ended: %w", err), drain(s))
	}
}

var errInterrupted = errors.New("interrupted before it was ready")

// orInterrupted shortens the error of a start that the user interrupted. To the error of
// a start that timed out, it adds where to find more.
func orInterrupted(stopping context.Context, err error) error {
	switch {
	case stopping.Err() != nil:
		return errInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("not ready within %s (--verbose shows the invoker's log): %w", readyTime, err)
	}
	return err
}

func (c standaloneCmd) level() slog.Level {
	switch {
	case c.Verbose:
		return slog.LevelInfo
	case c.Quiet:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// Validate checks the flags.
func (c *standaloneCmd) Validate() error {
	switch {
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("--port %d: want 0 to 65535", c.Port)
	case c.Tokens < 1 || c.Tokens > 64:
		return fmt.Errorf("--tokens %d: want 1 to 64", c.Tokens)
	case c.GPUs < 0 || c.GPUs > 64:
		return fmt.Errorf("--gpus %d: want 0 to 64", c.GPUs)
	case c.MemoryMax < leastMax:
		return fmt.Errorf("--memory-max %s: want at least %s, the default of an action", c.MemoryMax, leastMax)
	case c.MemoryMax > c.Memory:
		return fmt.Errorf("--memory-max %s: want at most --memory, which is %s", c.MemoryMax, c.Memory)
	case c.Quiet && c.Verbose:
		return errors.New("--quiet and --verbose: give one")
	}
	for _, text := range c.Namespace {
		if _, err := standalone.ParseNamespace(text); err != nil {
			return err
		}
	}
	if err := standalone.CheckPeers(c.Kafka, c.CouchDB); err != nil {
		return err
	}
	if _, err := standalone.CheckSettings(c.settings(os.Environ())); err != nil {
		return err
	}
	return checkPolicy(c.Policy)
}

// checkDevices returns an error before anything is started if a library of a flag is
// unusable or there is no GPU. Otherwise the first call would fail.
func (c standaloneCmd) checkDevices(log *slog.Logger) error {
	if c.FakeGPU != "" {
		if err := devices.CheckDriver(c.FakeGPU); err != nil {
			return fmt.Errorf("--fake-driver: %w (make shim-fake builds one in build/shim/fake12)", err)
		}
	}
	if c.Shim != "" {
		if err := devices.CheckLibrary(c.Shim); err != nil {
			return fmt.Errorf("--shim: %w (make shim-fake builds it in build/shim)", err)
		}
	}
	if c.Devices == "" || c.Devices == devices.None {
		return nil
	}
	const instead = "; without --devices, GPUs are simulated (--gpus N)"
	h, err := devices.OpenHost(c.Devices, nvml.Options{}, log)
	if err != nil {
		return fmt.Errorf("--devices: %w%s", err, instead)
	}
	found := len(h.Devices)
	if err := h.Close(context.Background()); err != nil {
		return fmt.Errorf("--devices: %w", err)
	}
	if found == 0 {
		why := "this machine has no GPU that its NVIDIA driver shows"
		if _, err := nvml.Open(nvml.Options{}); err != nil {
			why = err.Error()
		}
		return fmt.Errorf("--devices %s: no GPU can be used: %s%s", c.Devices, why, instead)
	}
	return nil
}

func drain(s *standalone.Standalone) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	return s.Stop(ctx)
}

func (c standaloneCmd) report(text string) {
	if !c.Quiet {
		fmt.Fprintln(os.Stderr, "gpuwhisk:", text)
	}
}

// greet prints all addresses, or in quiet mode only the wsk command to type, and the
// keys of further namespaces.
func (c standaloneCmd) greet(w io.Writer, s *standalone.Standalone) {
	if c.Quiet {
		s.SetCommand(w)
	} else {
		s.Banner(w)
	}
	for _, n := range s.Info().Namespaces[1:] {
		fmt.Fprintf(w, "namespace %s: --auth %s\n", n.Name, n.AuthKey())
	}
}

// settings returns the user's settings, from --set and the environment.
func (c standaloneCmd) settings(environ []string) config.Input {
	return config.Input{Settings: c.Set, Environ: withPrefix(environ, "CONFIG_whisk_")}
}

// withPrefix returns the variables whose names begin with one of the prefixes.
func withPrefix(environ []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(v, prefix) })
	})
}

func (c standaloneCmd) options(log *slog.Logger) (standalone.Options, error) {
	set, err := standalone.CheckSettings(c.settings(os.Environ()))
	if err != nil {
		return standalone.Options{}, err
	}
	bounds := set.Limits.Bounds()
	o := standalone.Options{
		Devices: c.Devices, FakeDriver: c.FakeGPU, Shim: c.Shim,
		Port: c.Port, Data: c.Data, Runtime: c.Runtime, GPUs: c.GPUs, GPUMemory: activation.Size(c.GPUMemory), Policy: c.Policy, Tokens: c.Tokens,
		Memory: c.Memory.bytes(), MemoryMax: activation.Size(c.MemoryMax), Kafka: c.Kafka, CouchDB: c.CouchDB, DBPrefix: c.DBPrefix, Docker: os.Getenv("DOCKER_HOST"),
		Version: version, Log: log, Bounds: &bounds, Network: set.Containers.Network,
		Extra: withPrefix(os.Environ(), "OTEL_", "CONFIG_whisk_"), // OTEL_ variables configure traces
	}
	o.Invoker, o.Admin = inProcess(log, c.Set)
	if c.Port != 0 && !standalone.Free(c.Port) {
		return o, fmt.Errorf("port %d is in use (--port 0 finds a free one)", c.Port)
	}
	if o.Data == "" {
		if o.Data, err = c.home(); err != nil {
			return o, err
		}
	}
	if c.Runtimes != "" {
		if o.Manifest, err = os.ReadFile(c.Runtimes); err != nil {
			return o, fmt.Errorf("read runtimes manifest: %w", err)
		}
	}
	for _, text := range c.Namespace {
		n, err := standalone.ParseNamespace(text)
		if err != nil {
			return o, err
		}
		o.Namespaces = append(o.Namespaces, n)
	}
	return o, nil
}

// home returns the default data directory: in the user's home directory, or, for a user
// without one, in a temporary directory that is printed.
func (c standaloneCmd) home() (string, error) {
	if dir, err := os.UserHomeDir(); err == nil {
		return filepath.Join(dir, ".gpuwhisk"), nil
	}
	dir, err := os.MkdirTemp("", "gpuwhisk-")
	if err != nil {
		return "", fmt.Errorf("create data directory: %w", err)
	}
	c.report("no home directory: keeping data in " + dir + " (--data names another)")
	return dir, nil
}

// inProcess returns a function that starts an invoker in this process, with the settings
// of --set, and a function that returns the address of its admin port. The address is
// empty until the port is open.
func inProcess(log *slog.Logger, settings []string) (start standalone.StartInvoker, admin func() string) {
	var address atomic.Value
	start = func(ctx context.Context, environ, args []string) (func() error, error) {
		cfg, err := config.Load(config.Input{Environ: environ, Args: args, Settings: settings})
		if err != nil {
			return nil, err
		}
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		ended := make(chan error, 1)
		go func() {
			ended <- assembly.Run(ctx, assembly.Options{
				Config: cfg, Log: log, Version: version, Self: self, Path: os.Getenv("PATH"), LibraryPath: os.Getenv("LD_LIBRARY_PATH"), Host: "127.0.0.1",
				Listening: func(addr string) { address.Store(addr) }, LocalImages: true,
			})
		}()
		return func() error { return <-ended }, nil
	}
	return start, func() string {
		addr, _ := address.Load().(string)
		return addr
	}
}
