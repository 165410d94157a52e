package invoker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// Feed hands over activation messages in order. Next blocks until there is a message or ctx
// ends. The invoker calls Next only with a free permit; that is the back-pressure.
type Feed interface {
	Next(ctx context.Context) (Delivery, error)
}

// Delivery is one message. Done is called once, when nothing of the activation can be lost
// any more: the broker has its acks and the database its record. Until then a crash delivers
// the message again. Commit, if not nil, is called when the activation begins to run and no
// journal has that: it stores a mark for the next process in Kafka.
type Delivery struct {
	*activation.Message
	Offset int64
	Commit func(killed, stopped delivery.Mark)
	Done   func()
	// History is the state in which earlier processes left the activation.
	delivery.History
	// NotJournaled is set if the journal keeps nothing of the activation. Fetched is set if
	// a scheduler handed the activation out, so that no topic has its message.
	NotJournaled bool
	Fetched      bool
	// Pin names the container in which the activation runs, if that container fits; 0 means
	// any.
	Pin Pin
	// Kind is the action's, where that is known before the action is; "": it is not.
	Kind string
}

// Actions fetches actions with their code.
type Actions interface {
	// Action gives the action of a revision, or the newest when revision is
	// empty or no longer stored. Errors wrap ErrNotFound,
	// activation.ErrIncompatible or are any other failure to fetch. It waits
	// for a store that is away until ctx ends.
	Action(ctx context.Context, id, revision string) (*activation.Action, error)
	// Cached gives the action of a revision if it is in memory. It does not block.
	Cached(id, revision string) (*activation.Action, bool)
}

// Records stores activation records. Put keeps the document until it is stored or
// refused for good, then calls stored once, from any goroutine, with how many
// records were written in one request with it, 0 where that is not known. It
// blocks while its buffer is full.
type Records interface {
	Put(ctx context.Context, id string, doc []byte, stored func(batch int, err error)) error
}

// Outbox sends messages to controllers and to readers of events. Messages to one controller
// arrive in the order of the calls. sent is called once, from any goroutine: when the broker
// has the message, when it can never be delivered, or with activation.ErrUnsent. The calls
// block while the outbox is full.
type Outbox interface {
	Ack(ctx context.Context, controller string, ack activation.Ack, sent func(error)) error
	Event(ctx context.Context, event activation.Event) error
	// Forward sends a message to another invoker's topic.
	Forward(ctx context.Context, invoker int, message []byte, sent func(error)) error
}

// GPUHosts knows the invokers that GPU activations may be passed on to.
type GPUHosts interface {
	// Choose returns the invoker that takes an activation of a function. While it is not
	// known which invokers live it waits. Its error says why no invoker takes it.
	Choose(ctx context.Context, namespace, function string) (invoker int, err error)
}

// Blacklist has the namespaces that may not invoke anything.
type Blacklist interface {
	Blocked(namespace string) bool
}

// Journal stores on disk how far each activation has come, for the next process.
type Journal interface {
	// AppendFetched stores the message of an activation that a scheduler has handed out. It
	// returns the history of the activation, and false if this process has, or had, the
	// activation.
	AppendFetched(id activation.ID, message []byte) (delivery.History, bool, error)
	// Begin is called before an action can have any effect. attempts counts the processes
	// that were killed during a run. Begin may wait for a disk, and returns an error when
	// ctx has ended: the activation must not run then. written is false if the disk is in
	// trouble.
	Begin(ctx context.Context, id activation.ID, attempts int) (written bool, err error)
	// KeepUnacknowledged stores the records of activations whose acks or records are not
	// safe, so that the next process can send the same ends. It waits for a disk, and
	// returns an error for each record that is not stored.
	KeepUnacknowledged(ids []activation.ID, records [][]byte) []error
	Completed(id activation.ID)
	// BeginHandback is called before another invoker may have the activation. The
	// activation counts as begun until AbortHandback or CommitHandback. CommitHandback
	// forgets the activation. BeginHandback and CommitHandback return when the entry is
	// written.
	BeginHandback(id activation.ID) error
	AbortHandback(id activation.ID)
	CommitHandback(id activation.ID) error
}

// Tracer receives each finished activation with its trace and the trace context of its
// message. It must not block, and must copy the data that it keeps.
type Tracer interface {
	Ended(a *explain.Trace, context json.RawMessage)
}

// Dialer makes a client of the action proxy at addr. Nothing is sent yet.
// Up to concurrency runs go on at once.
type Dialer func(addr string, concurrency int) ProxyClient

// ProxyClient is the HTTP client of one container's action proxy. Its calls return
// within timeout, whatever the proxy does.
type ProxyClient interface {
	Init(ctx context.Context, body []byte, timeout time.Duration, limit proxy.Limit) proxy.Exchange
	Run(ctx context.Context, body []byte, timeout time.Duration, limit proxy.Limit) proxy.Exchange
	// Close closes the idle connections; a later call opens new ones.
	Close()
}

// MemoryMover manages the device memory of GPU containers. It prepares a container so that its
// memory can be observed, moves the memory on order, and reports the memory of the container's
// processes. It is safe for concurrent use. Calls about one container come in the order of its
// life.
type MemoryMover interface {
	// Listen is called once, before anything else. report takes each change of a process'
	// memory, from any goroutine, and in order for each process. It does not block for long.
	Listen(report func(gpu.MemoryReport))
	// Prepare is called before a container is created and returns the settings for its device.
	// Forget is called when the container is gone, also if it was never created.
	Prepare(name string, device gpu.Device, wish container.DeviceRequest) (container.GPU, error)
	Forget(name string)
	// Begin reports that a run is about to begin in the container, before /init if there is
	// one, else before /run. need is the memory reserved for the run. End reports the end of
	// the run. It returns when the container's processes have reported their memory, or soon
	// after if they do not answer. Each Begin has its End. In a container that takes several
	// runs at once, they overlap.
	Begin(name string, need gpu.MemoryRequest)
	End(ctx context.Context, name string, need gpu.MemoryRequest)
	// Move carries out an order and returns the number of moved bytes. footprint is the total
	// memory of the container's processes by their last report. Their memory afterwards is
	// reported before Move returns. An error means that the order was not carried out or that
	// its outcome is unknown: a newer order replaced it, or no answer came until ctx ended. An
	// order with Again set was given before under the same epoch, and work on it continues.
	Move(ctx context.Context, order gpu.Order, footprint int64) (moved int64, err error)
	// Faults reports whether memory that is not on the device comes by itself
	// when a run touches it. If not, a run waits until it is there.
	Faults() bool
}

// ContainerStates stores on disk the facts that the next process needs to adopt each
// container. Calls about one container come one after the other. A failed write counts as no
// write, and the container is then removed.
type ContainerStates interface {
	// Write writes a container's state file. SetActivity changes the container's activity and
	// is cheap.
	Write(state container.StateFile)
	SetActivity(name string, is container.Activity, since time.Time, holds container.DeviceMemory)
	Drop(name string)
	// Read returns the files of an earlier process. It is called before all other methods.
	Read() []container.StateFile
}

// Daemon is an Engine whose containers live in a daemon of the host, such as Docker.
type Daemon interface {
	// Ping returns an error when the daemon does not answer.
	Ping(ctx context.Context) error
	// Leftovers lists every container whose name starts with prefix.
	Leftovers(ctx context.Context, prefix string) ([]container.Leftover, error)
	// Adopt takes containers over as if Create had made each by its spec. It returns an error
	// for each container that it cannot take over.
	Adopt(ctx context.Context, left []container.Leftover, specs []container.Spec) []error
	// Resize sets the limit of a container's host memory.
	Resize(ctx context.Context, id container.ID, bytes int64) error
}

// DeviceAdopter is a MemoryMover whose containers may outlive the process.
type DeviceAdopter interface {
	// Assume counts a container that is prepared again as holding the given memory until it
	// reports itself. It returns the report to use if there was none.
	Assume(name string, holds gpu.Usage) (gpu.MemoryReport, bool)
	// Release closes the connection to a container that lives on.
	Release(name string)
	// Sweep removes the files of containers that are not prepared.
	Sweep() error
}

// Engine creates and removes containers. Docker and plain processes implement
// it. Every call may block and ends with its context. An engine may be called
// from many goroutines at once.
type Engine interface {
	// Create makes and starts a container and waits until it has an address,
	// not until its proxy listens. The error is a *container.CreateError. A container
	// that ended before it had an address is returned beside the error: the caller
	// may read its logs, and must remove it.
	Create(ctx context.Context, spec container.Spec) (container.Handle, error)
	// Pause freezes a container; Resume thaws it. Both return
	// container.ErrGone when it no longer exists.
	Pause(ctx context.Context, id container.ID) error
	Resume(ctx context.Context, id container.ID) error
	// Remove ends and deletes a container in any state. It returns nil if the container is
	// already gone.
	Remove(ctx context.Context, id container.ID) error
	// OOMKilled reports whether the kernel ended the container for its memory
	// use. It waits as briefly as the engine allows for the answer to settle.
	OOMKilled(ctx context.Context, id container.ID) bool
	// LogsReady reports whether Logs would return at once. It does not block.
	LogsReady(id container.ID, req container.LogRequest) bool
	// Logs reads the container's output since the last call, up to the end of one
	// activation's output. Several calls for a container are served one after the other.
	Logs(ctx context.Context, id container.ID, req container.LogRequest) container.LogResult
	// CleanUp removes every container whose name starts with prefix.
	CleanUp(ctx context.Context, prefix string) error
	// Died delivers the ids of containers that ended or vanished without
	// Remove. It is closed when the engine is.
	Died() <-chan container.ID
}
