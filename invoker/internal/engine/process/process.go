// Package process runs action proxies as plain processes on this machine, for
// development without Docker. A process can see the machine's files and network, and its
// limits are checked from time to time instead of enforced by the kernel. Never run
// actions of strangers with it. It works only on Linux.
//
// An Engine owns one goroutine that starts all processes, one that checks their memory,
// and three for each process: two copy its output and one waits for its end. Close kills
// the processes and waits for all of these goroutines, except for processes that hang in
// the kernel.
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

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// Runtime is the command of the proxy for an action kind.
type Runtime struct {
	Argv []string
	Env  []string // K=V, in addition to the variables of every process
}

// Options sets the runtimes, limits and directory of an Engine.
type Options struct {
	// StateDir contains a directory for each process, named by its container's id, with
	// its log, working directory and temporary files. After a crash of the invoker, the
	// ids found there are used to kill leftover processes. StateDir is created if it
	// does not exist.
	StateDir string
	// Runtimes maps an action kind such as "python:3.11", or a family with a colon such
	// as "python:", to its proxy.
	Runtimes map[string]Runtime
	// Path is the PATH variable of the processes.
	Path string
	// PidsLimit limits the processes of a container. Zero means no limit.
	PidsLimit int
	// MaxLogBytes is the size at which a container's log file is rotated. One older file
	// is kept, so a container's output uses at most twice that size.
	MaxLogBytes int64
	LogWaits    logs.Waits
	Logger      *slog.Logger // nil: discard
}

// DefaultOptions returns the same limits as for other containers. The caller must set
// StateDir and Runtimes.
func DefaultOptions() Options {
	return Options{
		Path:        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		PidsLimit:   1024,
		MaxLogBytes: 16 << 20,
		LogWaits:    logs.DefaultWaits(),
	}
}

// Engine starts and ends action proxies. It is safe for concurrent use.
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

// maxDeaths exceeds the number of processes on a laptop. Each dies once, so the channel
// fills up only if its reader has stopped.
const maxDeaths = 4096

// New creates an engine and its state directory. Leftovers in the directory stay until
// CleanUp.
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

// Died returns the channel of processes that ended without Remove.
func (e *Engine) Died() <-chan container.ID { return e.died }

// Close kills and removes all processes of this engine.
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

// runtime returns the proxy for a kind, or else for its family.
func (o Options) runtime(kind string) (Runtime, bool) {
	r, ok := o.Runtimes[kind]
	if family, _, found := strings.Cut(kind, ":"); found && !ok {
		r = o.Runtimes[family+":"]
	}
	return r, len(r.Argv) > 0
}
