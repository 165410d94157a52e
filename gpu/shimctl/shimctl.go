// Package shimctl is the invoker's end of the shim's socket. Each container has a directory
// with a socket. The container's processes connect to the socket, report their use of GPU
// memory and take orders to move it. The package makes no decisions about memory (gpu does)
// and creates no containers.
//
// Its input comes from processes that run user code, so a false report must hurt only the
// reporting container. The process id is taken from the kernel if it reports one (see
// Outside), sizes are capped, frames and their rate are bounded, and a silent process is
// reported and never waited for beyond the caller's context.
//
// Goroutines: one per Control for the heartbeat, one per container that accepts connections,
// two per connection that read and write. Close ends all of them and waits.
package shimctl

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// SocketName is the socket's file in a container's directory.
const SocketName = "shim.sock"

// Errors that a caller may branch on.
var (
	// ErrReplaced means that a newer order of the container replaced this one.
	ErrReplaced = errors.New("replaced by a newer order")
	// ErrClosed means that the container or the control was closed.
	ErrClosed = errors.New("closed")
)

// Settings bound the reports of containers.
type Settings struct {
	// MaxResident is the memory of the device: no process holds more on it.
	MaxResident int64
	// Context is the overhead taken for each CUDA context of a process.
	Context int64
	// Processes is the most that may be connected for one container, those included that
	// have hung up and not ended. 0 takes DefaultProcesses.
	Processes int
	// Heartbeat is the time between two questions whether a process still
	// answers. 0 takes DefaultHeartbeat.
	Heartbeat time.Duration
	// Silence is how long a process may leave everything unanswered before
	// Events.Silent reports it. 0 takes DefaultSilence.
	Silence time.Duration
	// Threshold is the change of its memory that a process reports at once;
	// smaller ones it reports within half a second. 0 takes DefaultThreshold.
	Threshold int64
	// Owns reports whether a process belongs to a container. Nil believes the
	// directory's permissions alone.
	Owns func(container string, pid int) bool
}

// Defaults of Settings.
const (
	DefaultProcesses = 32
	DefaultHeartbeat = time.Second
	DefaultSilence   = 5 * time.Second
	DefaultThreshold = 16 << 20
)

// Events receives the reports of processes, by container. Calls come from several goroutines,
// and in order for each process. They must not block and must not call Close. Numbers are
// capped already.
type Events interface {
	// Usage reports a process' present use.
	Usage(container string, pid int, u gpu.Usage)
	// Exited reports that a process has ended: its memory is free. A process
	// that only disconnected keeps its last usage until it connects again or ends.
	Exited(container string, pid int)
	// Silent reports that a process stopped answering (it may be frozen with its
	// container), or that it answers again.
	Silent(container string, pid int, silent bool)
	// Refused reports that a process's libraries do not work with managed memory. It may
	// be called again for the same process.
	Refused(container string, pid int, r Refusal)
	// Wants asks for more than a container was granted below its limit. A Grant that is
	// made before it returns counts for the process that asked; unlike the others it may
	// take as long as other containers take to answer.
	Wants(container string)
}

// LibraryBytes is the assumed maximum of the device memory that the libraries of a process use
// besides its allocations and its context: modules, and buffers of cuBLAS, cuDNN and NCCL.
// With PyTorch it is 0.5 to 1.5 GB.
const LibraryBytes = 2 << 30

// Control keeps the sockets of all containers. It is safe for concurrent use.
type Control struct {
	dir    string
	cfg    Settings
	events Events
	log    *slog.Logger
	stop   chan struct{}
	work   sync.WaitGroup

	mu         sync.Mutex
	containers map[string]*Container
	closed     bool
}

// noEvents ignores unsolicited reports.
type noEvents struct{}

func (noEvents) Usage(string, int, gpu.Usage) {}
func (noEvents) Exited(string, int)           {}
func (noEvents) Silent(string, int, bool)     {}
func (noEvents) Refused(string, int, Refusal) {}
func (noEvents) Wants(string)                 {}

// Open creates the directory, for this user alone, and starts the heartbeat. If events is nil,
// processes report only on request.
func Open(dir string, cfg Settings, events Events, log *slog.Logger) (*Control, error) {
	if cfg.MaxResident <= 0 {
		return nil, fmt.Errorf("shim control: device memory of %d bytes: must be positive", cfg.MaxResident)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find socket directory: %w", err)
	}
	if err := makePrivate(dir); err != nil {
		return nil, err
	}
	if events == nil {
		events = noEvents{}
	}
	c := &Control{
		dir: dir, cfg: cfg.withDefaults(), events: events, log: log,
		stop: make(chan struct{}), containers: map[string]*Container{},
	}
	c.work.Go(c.heartbeat)
	return c, nil
}

func (s Settings) withDefaults() Settings {
	s.Processes = cmp.Or(s.Processes, DefaultProcesses)
	s.Heartbeat, s.Silence = cmp.Or(s.Heartbeat, DefaultHeartbeat), cmp.Or(s.Silence, DefaultSilence)
	s.Threshold = cmp.Or(s.Threshold, DefaultThreshold)
	return s
}

// makePrivate creates a directory that only this user can enter. An existing directory must
// belong to this user, because another user could replace it.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make socket directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("stat socket directory: %w", err)
	}
	if !info.IsDir() || !ownedByUs(info) {
		return fmt.Errorf("socket directory %s: not a directory of this user", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("close socket directory to others: %w", err)
	}
	return nil
}

// Container makes the directory and the socket of a container and begins to
// accept its processes. The same id always has the same directory, so that
// processes which outlive an invoker find the next one; the directory itself
// is kept when it exists, because it may be mounted.
func (c *Control) Container(id string) (*Container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("open shim socket of %s: %w", id, ErrClosed)
	}
	if _, exists := c.containers[id]; exists {
		return nil, fmt.Errorf("open shim socket of %s: open already", id)
	}
	// A name of fixed length: a socket's path has at most 107 bytes.
	sum := sha256.Sum256([]byte(id))
	ct, err := c.listen(id, filepath.Join(c.dir, hex.EncodeToString(sum[:8])))
	if err != nil {
		return nil, err
	}
	c.containers[id] = ct
	return ct, nil
}

// all returns the open containers.
func (c *Control) all() []*Container {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.containers))
}

// heartbeat sends a ping to every process at each interval.
func (c *Control) heartbeat() {
	ticker := time.NewTicker(c.cfg.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-c.stop:
			return
		case now := <-ticker.C:
			for _, ct := range c.all() {
				ct.ping(now)
			}
		}
	}
}

// Close closes every container and awaits all goroutines. Directories of
// containers stay: running containers may have them mounted.
func (c *Control) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	close(c.stop)
	var errs []error
	for _, ct := range c.all() {
		errs = append(errs, ct.shut())
	}
	c.work.Wait()
	return errors.Join(errs...)
}
