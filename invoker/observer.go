package invoker

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/proxy"
)

// observation is one of the on... types below: something that happened to an
// activation, a run, or the engine on their behalf.
type observation any

// observers are given every observation, from the goroutine in which it is made
// and before that goes on: log markers, metrics and traces. They do not block.
type observers []func(observation)

func (all observers) notify(o observation) {
	for _, f := range all {
		f(o)
	}
}

// Of a pending activation, in the order of its life.
type (
	onAccepted struct {
		p    *pending
		over bool // an earlier process had completed it
	}
	// onLoaded is a spilled activation of which the message is read back.
	onLoaded struct{ p *pending }
	// onInterrupted is an activation that an earlier process had accepted: rerun,
	// answered, completed or told.
	onInterrupted struct {
		p   *pending
		how string
	}
	onFetched struct {
		p      *pending
		cached bool
	}
	// onRefused is an activation that will not reach a container.
	onRefused struct {
		p        *pending
		response activation.Response
	}
	onForwarded struct{ p *pending }
	onAnswered  struct {
		p        *pending
		status   int
		recorded bool // its record is to be stored
	}
	onAcked struct {
		p    *pending
		kind activation.AckKind
		err  error
	}
	onStored struct {
		p     *pending
		batch int // records in the same request, 0 where that is not known
		err   error
	}
	// onSettled is the end: its acks and its record are safe.
	onSettled struct{ p *pending }
)

// Of a routed activation and its run. Times are the dispatcher's clock's.
type (
	onQueued struct {
		act *routed
		at  time.Duration
	}
	// onBlocked is, now and then, the activation that has waited longest for
	// memory.
	onBlocked struct {
		act  *routed
		pool container.Stats
	}
	// onPlaced is an activation that got a container, or a token.
	onPlaced struct {
		act              *routed
		at               time.Duration
		start, container string
	}
	onRunBegun struct{ r *run }
	onCreated  struct {
		r     *run
		began time.Time
		took  time.Duration
	}
	onInitBegun struct{ r *run }
	onInitEnded struct {
		r *run
		x proxy.Exchange
	}
	onRunSent     struct{ r *run }
	onRunAnswered struct {
		r *run
		x proxy.Exchange
	}
	onLogsBegun struct{ r *run }
	onLogsRead  struct {
		r     *run
		began time.Time
		took  time.Duration
		got   container.LogResult
	}
	// onRescheduled is a run whose container was gone before it began.
	onRescheduled struct{ r *run }
	onRunLeft     struct{ r *run } // its container
	onRunEnded    struct {
		r  *run
		at time.Duration
	}
)

// Of the container engine: a command, in the words of Docker's command line.
type (
	onCommand struct {
		transID     activation.TransID
		name, about string
	}
	onCommandEnded struct {
		onCommand
		took time.Duration
		err  error
	}
)

// command makes the observations of a command: that it begins, and when ended is
// called that it has ended.
func (all observers) command(t activation.TransID, name, about string) (ended func(error)) {
	c, began := onCommand{t, name, about}, time.Now()
	all.notify(c)
	return func(err error) { all.notify(onCommandEnded{c, time.Since(began), err}) }
}
