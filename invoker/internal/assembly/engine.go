package assembly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/containerd"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/process"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// Engine is a container engine that can be closed.
type Engine interface {
	invoker.Engine
	Close() error
}

// actionEngine runs the actions.
type actionEngine struct {
	*base
	gpus         *gpus
	programs     func() runtimes.Programs // the interpreters of this host, searched by findPrograms
	engine       Engine
	deviceEngine deviceEngine   // nil: actions run as processes
	daemon       invoker.Daemon // nil: actions run as processes
	// fromContainer reports whether an address is that of an action container. It is nil
	// before the engine is open, and for processes.
	fromContainer atomic.Pointer[func(netip.Addr) bool]
}

// open opens the container engine, which must be able to give the devices
// to containers.
func (a *actionEngine) open(ctx context.Context) (hooks, error) {
	if err := a.awaitEngine(ctx); err != nil {
		return hooks{}, err
	}
	h := hooks{close: closer(a.engine.Close)}
	if e, ok := a.engine.(puller); ok {
		h.status = func(s *status) { s.Pulls = e.Pulls() }
	}
	return h, a.gpus.check(a.deviceEngine)
}

// puller is an engine that pulls images.
type puller interface {
	// Pulls lists the images that are being pulled.
	Pulls() []container.Pull
}

// awaitEngine opens the container engine. It waits for an engine that does not answer, like
// the wait for the database. A wrong setting or a refusal by the engine ends the start.
func (a *actionEngine) awaitEngine(ctx context.Context) error {
	a.stage.Store("waiting for the " + a.engineName() + " engine")
	if a.engine = a.Engine; a.engine != nil {
		a.Log.Info("the caller has given the container engine")
		return nil
	}
	open := func(ctx context.Context) (err error) {
		a.engine, err = a.newEngine(ctx)
		return err
	}
	return a.await(ctx, "the container engine", open, func(err error) bool { return errors.Is(err, container.ErrAway) })
}

func (a *actionEngine) newEngine(ctx context.Context) (Engine, error) {
	if a.c.Runtimes.Processes() {
		return a.newProcesses()
	}
	if a.engineName() == clients.EngineContainerd {
		return a.newContainerd(ctx)
	}
	return a.newDocker(ctx)
}

// engineName returns what runs the actions: "docker", "containerd" or "process".
func (b *base) engineName() string {
	if b.c.Runtimes.Processes() {
		return b.c.Runtimes.Kind
	}
	return clients.Engine(b.c, os.DirFS("/"))
}

func (a *actionEngine) newContainerd(ctx context.Context) (Engine, error) {
	o := clients.Containerd(a.c, a.instance.ContainerPrefix(), a.Self, a.Log)
	o.Steps, o.LocalImages = a.steps.Begin, a.LocalImages
	if a.EngineWaits != nil {
		a.EngineWaits(&o.LogWaits, &o.Timeouts.Settle)
	}
	e, err := containerd.New(ctx, o)
	if err != nil {
		return nil, err
	}
	a.useDaemon(e)
	return e, nil
}

func (a *actionEngine) newDocker(ctx context.Context) (Engine, error) {
	o := clients.Docker(a.c, a.instance.ContainerPrefix(), a.Log)
	o.Steps, o.LocalImages = a.steps.Begin, a.LocalImages
	if a.EngineWaits != nil {
		a.EngineWaits(&o.LogWaits, &o.Timeouts.Settle)
	}
	e, err := docker.New(ctx, o)
	if err != nil && !errors.Is(err, container.ErrAway) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w (is the Docker daemon up, and may this user reach it? CONFIG_whisk_gpu_docker_host or DOCKER_HOST names another)", err)
	}
	a.useDaemon(e)
	return e, nil
}

// daemonEngine is an engine whose containers live in a daemon of the host.
type daemonEngine interface {
	Engine
	invoker.Daemon
	deviceEngine
	// FromContainer reports whether an address is that of an action container.
	FromContainer(addr netip.Addr) bool
}

func (a *actionEngine) useDaemon(e daemonEngine) {
	a.deviceEngine, a.daemon = e, e
	fromContainer := e.FromContainer
	a.fromContainer.Store(&fromContainer)
}

// findPrograms begins to search for the interpreters of a process engine while the rest of the
// start goes on. If a launcher has to be run to find the interpreter behind it, the search
// takes as long as the rest of the start. done ends the search.
func (a *actionEngine) findPrograms(ctx context.Context) (done func()) {
	if !a.c.Runtimes.Processes() || a.Engine != nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan runtimes.Programs, 1)
	go func() { found <- runtimes.FindPrograms(ctx) }()
	a.programs = sync.OnceValue(func() runtimes.Programs { return <-found })
	return func() {
		cancel()
		a.programs()
	}
}

// newProcesses serves the kinds for which there is an interpreter here.
func (a *actionEngine) newProcesses() (Engine, error) {
	dir := a.c.ProcessDir(a.instance.ContainerPrefix(), os.TempDir())
	proxies := a.c.Process.Proxies
	if proxies == "" {
		proxies = filepath.Join(dir, "proxies")
		if err := runtimes.Write(proxies); err != nil {
			return nil, err
		}
	}
	o := process.DefaultOptions()
	o.StateDir = filepath.Join(dir, "containers")
	o.Runtimes = a.runtimes(proxies)
	o.Path = cmp.Or(a.Path, o.Path)
	o.Logger = a.Log
	o.PidsLimit = a.c.Docker.PidsLimit
	o.MaxLogBytes = a.c.MaxLogBytes()
	return process.New(o)
}

// runtimes lists how each kind is started here. A kind without an interpreter
// is left out: its actions then fail with an error that names the kind. This program
// is its own proxy for executables.
func (a *actionEngine) runtimes(proxies string) map[string]process.Runtime {
	found := a.programs()
	found.Native = []string{a.Self, NativeProxy}
	all := map[string]process.Runtime{}
	for _, kind := range []string{"python:", "nodejs:", "native:", "blackbox"} {
		argv, err := found.Command(proxies, kind)
		if err != nil {
			a.Log.Warn("actions of a kind cannot run here", "kind", kind, "error", err)
			continue
		}
		if kind == "blackbox" { // only its code is here, not its image
			argv = append(slices.Clip(argv), "--no-image")
		}
		all[kind] = process.Runtime{Argv: argv}
	}
	return all
}

// NativeProxy is the command under which this program is the action proxy for
// executables.
const NativeProxy = "native-proxy"

// dialer is an engine whose containers are reached in a way of its own.
type dialer interface {
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
}

func (a *actionEngine) dial(addr string, concurrency int) invoker.ProxyClient {
	if e, ok := a.engine.(dialer); ok {
		return proxy.NewDialing(addr, concurrency, e.Dial)
	}
	return proxy.New(addr, concurrency)
}
