// Package containerd runs action containers on containerd, in a namespace and on a bridge
// of their own: it creates, pauses and removes them, reads their logs, and reports their
// deaths. It is the counterpart of package docker, and holds no policy.
//
// An Engine owns one goroutine that follows the daemon's events, one that prepares
// network namespaces ahead, and one for each create, pull or late removal under way;
// Close waits until each has ended.
package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/apparmor"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	cerrdefs "github.com/containerd/errdefs"
	clog "github.com/containerd/log"
	"github.com/sirupsen/logrus"
	lslog "github.com/sirupsen/logrus/hooks/slog"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/bridge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/netns"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/registry"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/runargs"
)

// fillers is how many goroutines prepare network namespaces.
const fillers = 2

// proxyPort is where every action proxy listens (OpenWhisk, docs/actions-new.md).
const proxyPort = "8080"

// Engine is a containerd daemon as the invoker uses it. It may be used from many
// goroutines.
type Engine struct {
	*roster.Roster

	api     *client.Client
	options Options
	args    runargs.Args
	cgroups cgroups
	log     *slog.Logger
	// clientLog receives the log lines of containerd's client.
	clientLog *clog.Entry
	// logProgram and init are copies in the state directory. init is "" if containers start
	// without it, and profile is "" without AppArmor.
	logProgram, init, profile string

	registries registry.Registries
	nodeLogins nodeLogins
	devices    *cdi.Cache
	network    *bridge.Network
}

// New connects to the daemon and makes the network ready. The error is container.ErrAway
// if the daemon does not answer: another try may succeed. Any other error is for good.
func New(ctx context.Context, options Options) (*Engine, error) {
	args, err := options.arguments()
	if err != nil {
		return nil, err
	}
	known, err := registry.New(options.Logins, options.Registries)
	if err != nil {
		return nil, err
	}
	if options.Files == nil {
		options.Files = os.DirFS("/")
	}
	options.Socket = FindSocket(options.Files, options.Socket)
	options.HostsDir = find(options.Files, options.HostsDir, hostsDirs)
	options.Config = find(options.Files, options.Config, configs)
	devices, err := cdi.NewCache(cdi.WithSpecDirs(options.CDIDirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, fmt.Errorf("read CDI specifications: %w", err)
	}
	e := &Engine{
		options: options, args: args, log: cmp.Or(options.Logger, slog.New(slog.DiscardHandler)),
		registries: known, devices: devices,
	}
	e.clientLog = newClientLog(e.log)
	e.Roster = roster.New(roster.Options{
		Daemon: "containerd", Log: e.log, Timeouts: options.Timeouts, Prefix: options.Prefix, ParallelCreates: options.ParallelCreates,
		Launch: e.launch, Remove: func(ctx context.Context, id string) error { return e.remove(ctx, id, "") }, List: e.list, Fit: e.fit, Ended: e.ended,
		OpenLog: e.openLog, Waits: options.LogWaits, Ping: e.Ping, Unreachable: cerrdefs.IsUnavailable,
		Pull: e.pull, LocalImages: options.LocalImages, Steps: options.Steps,
	})
	// containerd may accept more than its library: pulls without a login still work.
	if e.nodeLogins, err = readNodeLogins(ctx, options.Config); err != nil {
		e.log.Warn("the registry logins of containerd's configuration are not used", "file", options.Config, "error", err)
	}
	if err := e.open(ctx); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Engine) open(ctx context.Context) (err error) {
	if e.api, err = connect(e.options.Socket); err != nil {
		return err
	}
	ctx, cancel := roster.Limited(e.in(ctx), e.options.Timeouts.List)
	defer cancel()
	version, err := e.api.Version(ctx)
	if err != nil {
		return fmt.Errorf("ask containerd at %s for its version: %w: %w", e.options.Socket, container.ErrAway, err)
	}
	if e.logProgram, err = install(e.options.LogProgram, e.options.StateDir, logs.Command, "whisk.gpu.containerd.log-program"); err != nil {
		return err
	}
	if e.init, err = e.findInit(); err != nil {
		return err
	}
	if e.profile, err = e.confine(apparmor.LoadDefaultProfile); err != nil {
		return err
	}
	if e.cgroups, err = hostCgroups(e.options.Files); err != nil {
		return err
	}
	if e.network, err = bridge.Open(e.options.bridge(), e.log); err != nil {
		return err
	}
	if err := e.releaseUnused(ctx); err != nil {
		return err
	}
	e.log.Info("connected to containerd", "version", version.Version, "socket", e.options.Socket, "bridge", e.options.Bridge, "subnet", e.network.Subnet())
	e.Spawn(func() { e.Watch(e.follow, func() {}) })
	for range fillers {
		e.Spawn(func() { e.network.Fill(e.Context()) })
	}
	return nil
}

// connect returns a client. Nothing is sent yet, but a socket that is missing or may not
// be used is an error.
func connect(socket string) (*client.Client, error) {
	conn, err := net.Dial("unix", socket)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("open containerd's socket %s: user %d may not use it: run the invoker as root: %w", socket, os.Getuid(), err)
	case err != nil:
		return nil, fmt.Errorf("open containerd's socket (is containerd up? whisk.gpu.containerd.socket names another socket): %w: %w", container.ErrAway, err)
	}
	_ = conn.Close()
	api, err := client.New(socket, client.WithDefaultNamespace(Namespace))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd at %s: %w: %w", socket, container.ErrAway, err)
	}
	return api, nil
}

// in returns a context whose requests are about the invoker's namespace.
func (e *Engine) in(ctx context.Context) context.Context {
	return clog.WithLogger(namespaces.WithNamespace(ctx, Namespace), e.clientLog)
}

// newClientLog returns a log for containerd's client that writes to the engine's log.
func newClientLog(to *slog.Logger) *clog.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	l.AddHook(lslog.NewHook(to, nil))
	return logrus.NewEntry(l)
}

func (e *Engine) tasks() tasks.TasksClient { return e.api.TaskService() }

// Ping reports whether the daemon answers.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Answer)
	defer cancel()
	if _, err := e.api.Version(ctx); err != nil {
		return fmt.Errorf("ping containerd: %w", err)
	}
	return nil
}

// Close cancels the operations under way and waits for their end. Containers stay as
// they are.
func (e *Engine) Close() error {
	if !e.Roster.Close() {
		return nil
	}
	var err error
	if e.network != nil {
		err = e.network.Close()
	}
	if e.api != nil {
		err = errors.Join(err, e.api.Close())
	}
	if err != nil {
		return fmt.Errorf("close containerd: %w", err)
	}
	return nil
}

// Dial connects to a container's proxy.
func (e *Engine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return netns.Direct(ctx, network, address)
}

// FromContainer reports whether an address is that of an action container.
func (e *Engine) FromContainer(addr netip.Addr) bool {
	addr = addr.Unmap()
	return e.network.Subnet().Contains(addr) && addr != e.network.Gateway()
}
