// Package docker runs action containers on a Docker Engine: it creates, pauses and removes
// containers, reads their logs, and reports their deaths. It holds no policy: the caller
// decides which containers exist.
//
// An Engine owns one goroutine that follows the daemon's events, and one for each create,
// pull or late removal under way. Close waits until each goroutine has ended.
package docker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/netns"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/registry"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// Engine is a Docker daemon as the invoker uses it. It may be used from many
// goroutines.
type Engine struct {
	*roster.Roster

	api     *client.Client
	options Options
	host    hostPart // the part of a create request that all containers share
	log     *slog.Logger

	registries registry.Registries
	dial       netns.DialFunc          // to containers' proxies
	own        atomic.Pointer[Network] // the invoker's own network, nil if it is not used
	tried      atomic.Bool             // see tryIsolation
	initBinary string                  // the daemon's init program
	// withoutInit is set when the daemon was found to miss its init program.
	withoutInit atomic.Bool
}

// parallelCreates is how many creates may be under way at once: as many as were asked
// for, but no more than the daemon's host has processors. The start of a
// container is nearly all computing, of the daemon and of half a dozen programs
// that it runs: on two processors four at once take as long as two and two, but
// the first two then are ready after half the time. Two are worth it even on one
// processor, for while one writes to the disk another can go on.
func parallelCreates(asked, processors int) int {
	switch {
	case asked <= 0: // no limit
		return 0
	case processors <= 0: // the daemon does not report it
		return asked
	}
	return min(asked, max(processors, 2))
}

// New connects to the daemon and agrees with it on an API version. Where the
// daemon does not answer as it should the error is container.ErrAway: it is
// worth another try. Any other error is for good.
func New(ctx context.Context, options Options) (*Engine, error) {
	host, err := options.hostPart()
	if err != nil {
		return nil, err
	}
	known, err := registry.New(options.Logins, options.Registries)
	if err != nil {
		return nil, err
	}
	api, err := options.connect()
	if err != nil {
		return nil, fmt.Errorf("connect to docker: %w", err)
	}
	e := &Engine{
		api: api, options: options, host: host, log: cmp.Or(options.Logger, slog.New(slog.DiscardHandler)),
		registries: known, dial: netns.Direct,
	}
	if err := e.open(ctx); err != nil {
		_ = api.Close()
		return nil, err
	}
	e.Spawn(e.watch)
	return e, nil
}

func (e *Engine) open(ctx context.Context) error {
	if err := e.greet(ctx); err != nil {
		return err
	}
	e.Roster = roster.New(roster.Options{
		Daemon: "docker", Log: e.log, Timeouts: e.options.Timeouts, Prefix: e.options.Prefix, ParallelCreates: e.options.ParallelCreates,
		Launch: e.launch, Remove: e.remove, List: e.list, Fit: e.fit, Ended: e.ended, OpenLog: e.openLog, Waits: e.options.LogWaits,
		Ping: e.Ping, Unreachable: client.IsErrConnectionFailed,
		Pull: e.pull, LocalImages: e.options.LocalImages, Steps: e.options.Steps,
	})
	err := e.openNetwork(ctx)
	if err != nil {
		e.Roster.Close()
	}
	return err
}

// greet asks the daemon for its version and settings. Logs are searched last in the
// directory below the daemon's root, which an invoker outside of a container can read.
func (e *Engine) greet(ctx context.Context) error {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.List)
	defer cancel()
	result, err := e.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return fmt.Errorf("ask docker for its version: %w: %w", container.ErrAway, err)
	}
	info := result.Info
	e.options.ParallelCreates = parallelCreates(e.options.ParallelCreates, info.NCPU)
	if root := info.DockerRootDir; root != "" {
		e.options.LogDirs = append(slices.Clone(e.options.LogDirs), filepath.Join(root, "containers"))
	}
	if err := e.learnDevices(survey(info, e.api.ClientVersion())); err != nil {
		return err
	}
	e.initBinary = info.InitBinary
	e.log.Info("connected to docker", "version", info.ServerVersion,
		"api", e.api.ClientVersion(), "storage", info.Driver, "cgroup", info.CgroupVersion)
	return nil
}

// learnDevices finds out how containers get a GPU with its mounts, and whether containers
// of CPU actions must be kept from seeing GPUs.
func (e *Engine) learnDevices(s Survey) (err error) {
	own := e.host.host.Runtime
	e.host.devices, err = s.Devices(e.options.Devices, own, e.options.Files)
	if err != nil {
		return err
	}
	if e.host.selinux, err = s.selinux(e.options.SELinux); err != nil {
		return err
	}
	used := cmp.Or(own, s.DefaultRuntime)
	e.host.hideGPUs = used == nvidiaRuntime || slices.Contains(s.ShowingRuntimes, used)
	return nil
}

// Ping reports whether the daemon answers.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Answer)
	defer cancel()
	if _, err := e.api.Ping(ctx, client.PingOptions{}); err != nil {
		return fmt.Errorf("ping docker: %w", err)
	}
	return nil
}

// Close cancels the operations under way and waits for their end. Containers stay as they
// are.
func (e *Engine) Close() error {
	if !e.Roster.Close() {
		return nil
	}
	if err := e.api.Close(); err != nil {
		return fmt.Errorf("close docker connection: %w", err)
	}
	return nil
}
