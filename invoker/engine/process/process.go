// Package process runs action proxies as plain processes on this machine. It
// is for development where there is no Docker: a process sees the machine's
// files and network, and its limits are watched, not enforced by the kernel.
// Never run actions of strangers with it. Linux only.
//
// An Engine owns one goroutine that starts all processes, one that watches
// their memory, and three for each process: two that copy its output and one
// that waits for its end. Close ends the processes and waits for all of them, but
// for those that hang in the kernel.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/logs"
)

// Runtime is how the proxy of one action kind is started.
type Runtime struct {
	Argv []string
	Env  []string // K=V, beside the few variables that every process gets
}

// Options are what an Engine may start and where it keeps its files.
type Options struct {
	// StateDir has a directory for each process, named by its container's id: its
	// log, its working and temporary files. After a crash of ours the processes of
	// the ids found there are ended. It is made if it does not exist.
	StateDir string
	// Runtimes maps an action kind such as "python:3.11", or a family with its
	// colon such as "python:", to the proxy that serves it.
	Runtimes map[string]Runtime
	// Path is the PATH of the processes.
	Path string
	// PidsLimit is how many processes one container may have, 0 for any number.
	PidsLimit int
	// MaxLogBytes is the size at which a container's log file is rotated. One
	// older file stays, so a container's output takes twice that at most.
	MaxLogBytes int64
	LogWaits    logs.Waits
	Logger      *slog.Logger // nil: silent
}

// DefaultOptions are the limits that containers have elsewhere. StateDir and
// Runtimes are the caller's to set.
func DefaultOptions() Options {
	return Options{
		Path:        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		PidsLimit:   1024,
		MaxLogBytes: 16 << 20,
		LogWaits:    logs.DefaultWaits(),
	}
}

// Engine starts and ends action proxies. It may be used from many goroutines.
type Engine struct {
	options Options
	log     *slog.Logger
	starter *starter
	guard   *guard
	died    chan container.ID
	endTime time.Duration

	mu     sync.Mutex
	live   map[container.ID]*child // from Create to Remove
	closed bool
}

// maxDeaths is more than the processes that a laptop will run: each dies once,
// so only a reader that has stopped reading can let the channel fill up.
const maxDeaths = 4096

// New prepares the state directory. Leftovers in it stay until CleanUp.
func New(options Options) (*Engine, error) {
	if options.StateDir == "" {
		return nil, errors.New("process engine has no state directory")
	}
	dir, err := filepath.Abs(options.StateDir)
	if err != nil {
		return nil, fmt.Errorf("find state directory %s: %w", options.StateDir, err)
	}
	options.StateDir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	log := cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	log.Warn("actions run as plain processes: for development only, nothing isolates them")
	e := &Engine{
		options: options, log: log,
		starter: newStarter(), died: make(chan container.ID, maxDeaths),
		endTime: endTime, live: map[container.ID]*child{},
	}
	e.guard = newGuard(e.children, options.PidsLimit, log)
	return e, nil
}

// Died delivers the processes that ended without Remove.
func (e *Engine) Died() <-chan container.ID { return e.died }

// Close ends and removes all processes of this engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	var errs []error
	for _, c := range e.children() {
		errs = append(errs, e.Remove(context.Background(), c.id))
	}
	e.guard.close()
	e.starter.close()
	close(e.died)
	return errors.Join(errs...)
}

// reportDeath delivers a death without blocking.
func (e *Engine) reportDeath(id container.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	select {
	case e.died <- id:
	default:
		e.log.Error("the deaths of processes are not read", "container", id)
	}
}

func (e *Engine) children() []*child {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.live))
}

func (e *Engine) find(id container.ID) *child {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live[id]
}

// runtime finds the proxy for a kind: the kind itself, or its family.
func (o Options) runtime(kind string) (Runtime, bool) {
	r, ok := o.Runtimes[kind]
	if family, _, found := strings.Cut(kind, ":"); found && !ok {
		r = o.Runtimes[family+":"]
	}
	return r, len(r.Argv) > 0
}
