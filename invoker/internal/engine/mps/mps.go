// Package mps runs one NVIDIA MPS control daemon for each GPU whose containers may run
// kernels at the same time. It starts the daemon, returns the variables and mounts with
// which a container joins it, restarts it after a failure, and ends it.
//
// Processes that share a daemon share a fault domain: an error of one process ends the
// work of all, and no process is protected from the others' use of the device (NVIDIA,
// Multi-Process Service, "Client-Server Connection" and "Error Containment"). The
// caller decides which containers may share a daemon; this package does not know
// namespaces.
//
// There is one goroutine per daemon, which starts the daemon and waits for its end.
// Close ends the goroutines.
package mps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options are which daemons there are and how they are kept.
type Options struct {
	// Devices are the UUIDs of the GPUs that get a daemon each.
	Devices []string
	// Program is the control daemon; empty is Program, found on PATH.
	Program string
	// Dir is the directory that is this invoker's own: each daemon has one
	// below it for its pipes, its log and its shared memory. Close removes
	// them.
	Dir string
	// Apart gives each daemon a /dev/shm of its own, below Dir. Daemon and
	// clients connect through files there, so a container that is to join must
	// have the daemon's; it need not have the host's. It needs the right to
	// mount.
	Apart bool
	// Lost and Back, when not nil, are called when a daemon ended by itself, and
	// when it serves again. They must not block and must not call Close.
	Lost func(device, why string)
	Back func(device string)
	Log  *slog.Logger

	// How long a daemon may take to serve, and to end; the pauses before it is
	// started again, which double from the first to the longest. 0 is a
	// default.
	StartLimit, EndLimit     time.Duration
	FirstPause, LongestPause time.Duration
}

// Program is the name of NVIDIA's control daemon.
const Program = "nvidia-cuda-mps-control"

// Runs reports whether anybody's MPS daemon runs, by the names of processes as the
// kernel cuts them; root is the host's file system.
func Runs(root fs.FS) bool {
	names, _ := fs.Glob(root, "proc/[0-9]*/comm")
	return slices.ContainsFunc(names, func(name string) bool {
		comm, err := fs.ReadFile(root, name)
		return err == nil && strings.HasPrefix(string(comm), "nvidia-cuda-mps")
	})
}

// Joint is where a container finds a daemon, as paths of the host. Processes
// that join write to both.
type Joint struct {
	Pipe string // for CUDA_MPS_PIPE_DIRECTORY
	Shm  string // to be its /dev/shm; empty: the host's own is used
}

// Daemons are the daemons of a host.
type Daemons struct {
	options Options
	daemons map[string]*daemon
	stop    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

// Start starts a daemon for each device and waits until all serve. If one does
// not, none is left.
func Start(ctx context.Context, o Options) (*Daemons, error) {
	o = o.withDefaults()
	program, err := exec.LookPath(cmp.Or(o.Program, Program))
	if err != nil {
		return nil, fmt.Errorf("find the MPS control daemon: %w", err)
	}
	o.Program = program
	d := &Daemons{options: o, daemons: map[string]*daemon{}, stop: make(chan struct{})}
	for _, device := range o.Devices {
		one := newDaemon(device, o, d.stop)
		if err := one.prepare(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.daemons[device] = one
		d.wg.Go(one.keep)
	}
	for _, one := range d.daemons {
		if err := one.await(ctx); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// startLimit is long, for an invoker starts with its host, when everything
// does. A daemon that cannot serve ends sooner, and is not waited for.
const startLimit = 30 * time.Second

func (o Options) withDefaults() Options {
	o.StartLimit = cmp.Or(o.StartLimit, startLimit)
	o.EndLimit = cmp.Or(o.EndLimit, 3*time.Second)
	o.FirstPause = cmp.Or(o.FirstPause, time.Second)
	o.LongestPause = cmp.Or(o.LongestPause, time.Minute)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Lost == nil {
		o.Lost = func(string, string) {}
	}
	if o.Back == nil {
		o.Back = func(string) {}
	}
	return o
}

// Join is where the daemon of a device is; false if it has none.
func (d *Daemons) Join(device string) (Joint, bool) {
	one, there := d.daemons[device]
	if !there {
		return Joint{}, false
	}
	j := Joint{Pipe: one.pipe()}
	if d.options.Apart {
		j.Shm = one.shm()
	}
	return j, true
}

// Close ends the daemons and removes their directories. No process that has
// joined one should be left by then: it loses its device.
func (d *Daemons) Close() error {
	d.once.Do(func() { close(d.stop) })
	d.wg.Wait()
	var errs []error
	for _, one := range d.daemons {
		errs = append(errs, one.remove())
	}
	return errors.Join(errs...)
}
