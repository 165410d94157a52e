// Package container decides which container serves an activation: it reuses a
// warm one, takes a prewarmed one, starts a cold one, evicts, or lets the
// activation wait. It also holds the words in which the invoker and its
// engines (Docker, plain processes) speak of containers.
//
// The package is pure: events come in with the time attached, orders go out,
// and the caller carries them out. It starts no goroutine and calls no engine.
package container

import (
	"errors"
	"strings"
	"time"
)

// ID names a container at its engine: the 64 hex digits of Docker, or a name
// that the process engine made.
type ID string

// Spec is everything an engine needs to create one container.
type Spec struct {
	Name      string   // unique on the host, starts with the invoker's prefix
	Kind      string   // resolved action kind, such as "python:3.11" or "blackbox"
	Image     string   // full image reference, registry and tag included
	Pull      bool     // a user's image: pull first, by the rules of user images
	MemoryMB  int      // limit of memory and of memory plus swap, MiB
	CPUShares int      // relative weight, at least 2
	CPUs      float64  // hard limit in cores, 0 means none
	Env       []string // K=V, set when the container is created
	GPU       *GPU     // nil: the container sees no device
}

// GPU names the device of a container, and the settings by which its processes' device memory
// is observed and moved.
type GPU struct {
	Index     int      // the scheduler's device index
	Device    string   // the engine's name for it: a CDI name, an index or a UUID
	Simulated bool     // no hardware; the engine passes no device on
	Env       []string // K=V; overrides every other variable with that name
	Mounts    []Mount  // an engine without a file system of its own ignores them
	Shared    []Mount  // further ones that the container may write to
	Build     string   // version of the mounted files
	// SpillMB is the host memory, in MiB, that the container's device memory may take while it
	// is on the host. It comes on top of Spec.MemoryMB. The kernel charges pages that the
	// driver moves to the host to the owning process, and a function must not be killed
	// because it was swapped out.
	SpillMB int
}

// DeviceRequest is an action's request for device memory.
type DeviceRequest struct {
	Shim  string // the value of its annotation, or its fallback
	Limit int64  // bytes that the container may hold in total; 0 means the device's memory
	Host  int64  // bytes of host memory that its processes may pin; 0 for no limit
	// Namespace owns the container. NamespaceLimit bounds the bytes that its running
	// containers may hold together on a device; 0 means no limit.
	Namespace      string
	NamespaceLimit int64
	// Memory is the declared device memory in bytes; 0 if the action declares none. Memory
	// beyond it gets host memory once it is observed.
	Memory int64
}

// Mount puts a file or directory of the host into a container, read-only and
// private: nothing mounted later on the host appears in it.
type Mount struct{ Source, Target string }

// Limit is the most host memory that the container may use, in bytes.
func (s Spec) Limit() int64 {
	mb := s.MemoryMB
	if s.GPU != nil {
		mb += s.GPU.SpillMB
	}
	return int64(mb) << 20
}

// Handle is a container that its engine has created and started.
type Handle struct {
	ID   ID
	Name string
	Addr string // host:port of its action proxy
}

// Blame states whose fault a container error is; it picks the status code of the
// activation's response.
type Blame int

// The party that caused a CreateError.
const (
	BlameWhisk     Blame = iota // the system's: status 3, the invoker's health suffers
	BlameDeveloper              // the action's author: status 2
)

// CreateError reports that a container could not be created. Message is for the user, Err is
// for the operator's log.
type CreateError struct {
	Blame   Blame
	Message string
	Err     error
}

// Error gives the user's text and the cause.
func (e *CreateError) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return strings.TrimSuffix(e.Message, ".") + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *CreateError) Unwrap() error { return e.Err }

// ErrAway means that the engine does not answer. The request is not wrong and may succeed
// later.
var ErrAway = errors.New("container engine is away")

// ErrGone means that the container no longer exists.
var ErrGone = errors.New("container is gone")

// LogRequest states how the log lines of one activation are read.
type LogRequest struct {
	WaitForSentinel bool // the runtime marks the end of an activation's output
	LimitBytes      int64
	Now             time.Time // stamps the lines that the collector appends
	Failed          bool      // status 2: the closing line about missing data is added
	Answered        bool      // a failed run that was answered: its output ends with a sentinel if the runtime writes one
	Alone           bool      // nothing else runs in the container until Logs returns
	Raw             bool      // the lines are wanted as the log has them, too
	// Reserve, when not nil, is called at most once, before more of a log is read
	// than each may have in memory. It waits until there is memory for LimitBytes;
	// with an error no more is read. The log stays where it is meanwhile, and that
	// time is not the container's.
	Reserve func() error
}

// LogResult is the log of one activation. Lines are ready for the activation record.
// Incomplete is true if sentinels, lines or bytes were missing, whatever the user printed.
type LogResult struct {
	Lines      []string
	Raw        [][]byte // JSON objects, one for each line, where LogRequest.Raw asks
	Truncated  bool
	Incomplete bool
}
