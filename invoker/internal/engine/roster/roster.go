// Package roster is the part of a container engine that does not depend on the daemon: the
// engines of Docker and of containerd embed a Roster. It lists the containers of an engine
// and records the end of each, limits parallel creates, shares pulls and reports their
// progress, repeats failed removals, follows the daemon's events again and again, and adopts
// the containers of an earlier process.
//
// A Roster owns the goroutines that Spawn starts, and Close waits until each has ended.
package roster

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// maxDeaths is more than the containers that a host can run. A container dies once, so
// the channel fills up only if its reader has stopped.
const maxDeaths = 4096

// Options connect a roster with its daemon.
type Options struct {
	Daemon   string // its name in the log
	Log      *slog.Logger
	Timeouts Timeouts
	// Prefix is the beginning of the names of this invoker's containers.
	Prefix string
	// ParallelCreates is how many creates may be under way at once, first come first
	// served. 0 or less means no limit.
	ParallelCreates int
	// Launch makes and starts a container. ctx ends when the caller gives up, and work some
	// time later. Launch leaves nothing behind if it fails, except for a container that ended
	// at once, which it returns beside ErrEnded.
	Launch func(ctx, work context.Context, spec container.Spec) (container.Handle, error)
	// Remove removes a container by its id or name, in any state.
	Remove func(ctx context.Context, idOrName string) error
	// List lists the containers whose names start with prefix.
	List func(ctx context.Context, prefix string) ([]container.Leftover, error)
	// Fit returns why a container is not as Launch would make it by spec, or nil.
	Fit func(ctx context.Context, l container.Leftover, spec container.Spec) error
	// Ended reports whether the daemon says that a container ran out of memory, and whether
	// its first process was ended by SIGKILL.
	Ended func(ctx context.Context, id container.ID) (oom, killed bool)
	// OpenLog opens the log of a container at its beginning.
	OpenLog func(id container.ID) (logs.Source, error)
	Waits   logs.Waits
	Ping    func(ctx context.Context) error
	// Unreachable reports whether an error says that the daemon cannot be reached.
	Unreachable func(err error) bool
	// Pull fetches an image and reports its progress.
	Pull func(ctx context.Context, image string, p *Progress) error
	// LocalImages has a user's image without a tag run from this host's copy where it
	// cannot be pulled.
	LocalImages bool
	// Steps is called for pulls. It may be nil.
	Steps func(step string, documents int) (ended func(err error))
}

// Roster is safe for concurrent use.
type Roster struct {
	// Slots counts the creates that may begin.
	Slots *semaphore.Weighted

	options Options
	died    chan container.ID
	pulls   singleflight.Group
	blind   atomic.Bool // see Blind

	base   context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu          sync.Mutex
	entriesByID map[container.ID]*Entry // from create to removal
	pulling     map[*Progress]bool
	sweeping    map[string]bool // containers whose removal has failed
	back        chan struct{}   // closed when the daemon is back, and replaced
	closed      bool
}

// New returns an empty roster.
func New(options Options) *Roster {
	slots := int64(options.ParallelCreates)
	if slots <= 0 {
		slots = math.MaxInt64
	}
	r := &Roster{
		Slots: semaphore.NewWeighted(slots), options: options, died: make(chan container.ID, maxDeaths),
		entriesByID: map[container.ID]*Entry{}, pulling: map[*Progress]bool{}, sweeping: map[string]bool{}, back: make(chan struct{}),
	}
	r.base, r.cancel = context.WithCancel(context.Background())
	return r
}

// Context ends with Close.
func (r *Roster) Context() context.Context { return r.base }

// Close cancels the goroutines of the roster, waits for them and closes the channel of
// deaths. It returns false if the roster was closed before.
func (r *Roster) Close() bool {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return false
	}
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	close(r.died)
	for _, entry := range r.entries() {
		entry.closeTail()
	}
	return true
}

func (r *Roster) entries() []*Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.entriesByID))
}

// Died delivers the containers that ended or vanished without a removal.
func (r *Roster) Died() <-chan container.ID { return r.died }

// Spawn runs f in a goroutine that Close waits for. It returns false once the roster
// is closed.
func (r *Roster) Spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.wg.Go(f)
	return true
}

// Entry is a container from its create to its removal. The fields below oomed are
// guarded by the roster's mu.
type Entry struct {
	ctx    context.Context // ends with the removal
	cancel context.CancelFunc
	ended  chan struct{} // closed when the container was seen to end
	oomed  chan struct{} // closed when it was seen to run out of memory

	dead      bool // ended is closed
	oom       bool // oomed is closed
	handedOut bool // the caller has it, so its death is reported
	tail      *logs.Tail
}

// Ended is closed when the container was seen to end.
func (k *Entry) Ended() <-chan struct{} { return k.ended }

// oomBefore waits for the report that the container has run out of memory. It returns
// false if there is none when end is closed, when the limit has passed, or when ctx ends.
func (k *Entry) oomBefore(ctx context.Context, end <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-k.oomed:
	case <-end:
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case <-k.oomed:
		return true
	default:
		return false
	}
}

// lateOOM is how much later than a container's end the daemon may notice that it
// was for its memory use.
const lateOOM = time.Second

// OOMKilled reports whether the kernel ended the container, or a process in it,
// for its memory use. A container that still seems to run gets a moment to
// end: the proxy's connection breaks some ten milliseconds before the daemon
// notices why.
func (r *Roster) OOMKilled(ctx context.Context, id container.ID) bool {
	k := r.Find(id)
	if k == nil {
		return false
	}
	if k.oomBefore(ctx, k.ended, r.options.Timeouts.Settle) {
		return true
	}
	oom, killed := r.options.Ended(ctx, id)
	if oom || !killed {
		return oom
	}
	// The kernel reports its memory use and its end to the daemon by two ways, and
	// the report on memory may be the later.
	if k.oomBefore(ctx, nil, min(lateOOM, r.options.Timeouts.Settle)) {
		return true
	}
	oom, _ = r.options.Ended(ctx, id)
	return oom
}

// Remember adds a container.
func (r *Roster) Remember(id container.ID) {
	k := &Entry{ended: make(chan struct{}), oomed: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(r.base)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entriesByID[id] = k
}

// handOut records that the caller has a container. A death before handOut is reported
// now.
func (r *Roster) handOut(id container.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.entriesByID[id]
	if k == nil { // removed already
		return
	}
	k.handedOut = true
	if k.dead {
		r.reportDeath(id)
	}
}

// Forget drops a container. Its death is not reported any more.
func (r *Roster) Forget(id container.ID) {
	r.mu.Lock()
	k := r.entriesByID[id]
	delete(r.entriesByID, id)
	r.mu.Unlock()
	if k != nil {
		k.cancel()
		r.Spawn(k.closeTail) // it waits for a collection under way
	}
}

// Len returns the number of containers.
func (r *Roster) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entriesByID)
}

// Find returns a container, or nil.
func (r *Roster) Find(id container.ID) *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entriesByID[id]
}

// RecordEnd records the end of a container and reports it once.
func (r *Roster) RecordEnd(id container.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.entriesByID[id]
	if k == nil || k.dead {
		return
	}
	k.dead = true
	close(k.ended)
	if k.handedOut {
		r.reportDeath(id)
	}
}

// reportDeath delivers a death. It is called with mu held and must not block.
func (r *Roster) reportDeath(id container.ID) {
	if r.closed {
		return
	}
	select {
	case r.died <- id:
	default:
		r.options.Log.Error("the deaths of containers are not read", "container", id)
	}
}

// RecordOOM records that a container ran out of memory.
func (r *Roster) RecordOOM(id container.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.entriesByID[id]; k != nil && !k.oom {
		k.oom = true
		close(k.oomed)
	}
}

// LogsReady reports whether Logs would return at once.
func (r *Roster) LogsReady(id container.ID, req container.LogRequest) bool {
	_, tail := r.Tail(id)
	return tail != nil && tail.Ready(req)
}

// Logs reads the output of a container since the last call.
func (r *Roster) Logs(ctx context.Context, id container.ID, req container.LogRequest) container.LogResult {
	k, tail := r.Tail(id)
	if tail == nil {
		return logs.Unreadable()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	return tail.Collect(ctx, req)
}

// Tail returns the container's log at the position where the last reading ended. The
// first call opens the log. The tail is nil if the container is not known or has no log.
func (r *Roster) Tail(id container.ID) (*Entry, *logs.Tail) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.entriesByID[id]
	if k == nil || r.closed {
		return nil, nil
	}
	if k.tail == nil {
		source, err := r.options.OpenLog(id)
		if err != nil {
			r.options.Log.Debug("open the log of a container", "container", id, "error", err)
			return nil, nil
		}
		k.tail = logs.NewTail(source, r.options.Waits)
	}
	return k, k.tail
}

// closeTail closes the log. The container's context has already canceled a collection
// under way.
func (k *Entry) closeTail() {
	k.cancel()
	if k.tail != nil {
		_ = k.tail.Close()
	}
}
