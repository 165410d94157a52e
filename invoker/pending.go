package invoker

import (
	"encoding/json"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
)

// pending is one accepted activation: its message, its route and its wait for a container.
// The delivery table owns how far it has come.
type pending struct {
	Delivery
	state     *delivery.Activation
	completer *completer
	trace     explain.Trace // its steps so far, with the times of its run
	accepted  time.Duration
	// sentTo is the invoker to which the controller sent the message: this one, or the one that
	// forwarded the message first. Every ack names it, because the controller counts the
	// activation against its memory.
	sentTo *activation.Instance

	// The route, known from route on and fixed from then on.
	action  *activation.Action // nil: it could not be fetched, or the caller's limits exclude it
	key     string             // containers are shared among equal keys
	bounds  activation.Bounds
	content json.RawMessage
	collect bool                   // logs are read before the completion
	gpu     *activation.GPURequest // nil: the CPU path
	timeout time.Duration
	// concurrency is how many runs of the action one container takes at once: the action's
	// limit, which the system bounds, or less by the gpu annotation.
	concurrency int

	// The wait for a container or a token. The dispatcher owns these fields.
	invocation uint64 // its number in the cores
	queued     time.Duration
	withdrawn  bool          // it is to be given back
	keep       bool          // it was not taken back, and runs here
	leftBehind bool          // it is left to the next process: it cannot start before the stop's deadline
	fallback   string        // why its memory is only counted, where the action lets it be moved
	arrivals   arrivalCounts // for its trace
	obstacle   *obstacle     // the reason of its wait when it came; nil: it did not wait
}

// pendingBytes is about how much memory an activation takes while it waits for a GPU,
// without its parameters: 3.9 kB by BenchmarkBacklog.
const pendingBytes = 4 << 10

// size is about how much memory a pending activation takes while it waits.
func (p *pending) size() int64 { return pendingBytes + int64(len(p.Content)) }

// tried reports whether the action has begun to run, here or in an earlier process. Such
// an activation is not passed on.
func (p *pending) tried() bool { return p.Begun || p.state.Begun() }
