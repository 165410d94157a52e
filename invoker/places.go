package invoker

import (
	"sync/atomic"
	"time"
)

// places bound what is accepted and not completed. A message is pulled for a
// common place. An activation that waits for a GPU gives that back and takes one
// of its own kind: whatever stands before the devices, and for how long, CPU
// activations are pulled as if it were not there. Only where the GPU backlog is
// full does an activation keep its common place, so that pressure reaches Kafka.
type places struct {
	common chan struct{} // one for each, and one for the next message
	gpu    chan struct{}
	bytes  atomic.Int64 // of the messages that hold a GPU place
	most   int64
	taken  atomic.Int64 // of both kinds, messages not yet pulled left out
}

// Backlog bounds the activations that wait for a GPU.
type Backlog struct {
	Activations int
	Bytes       int64 // of their messages
}

func newPlaces(common int, gpu Backlog) *places {
	return &places{common: make(chan struct{}, common), gpu: make(chan struct{}, gpu.Activations), most: gpu.Bytes}
}

// claim is a ticket's place.
type claim struct {
	gpu   bool
	bytes int64
}

// setApart moves a ticket to a GPU place, where one is left.
func (p *places) setApart(c *claim, bytes int64) {
	if c.gpu {
		return
	}
	if p.bytes.Add(bytes) > p.most {
		p.bytes.Add(-bytes)
		return
	}
	select {
	case p.gpu <- struct{}{}:
		*c = claim{gpu: true, bytes: bytes}
		<-p.common
	default:
		p.bytes.Add(-bytes)
	}
}

// release gives a ticket's place back.
func (p *places) release(c claim) {
	p.taken.Add(-1)
	if !c.gpu {
		<-p.common
		return
	}
	p.bytes.Add(-c.bytes)
	<-p.gpu
}

// drain waits until all places are free, which is when every accepted activation
// is completed, or until late. It returns how many are not.
func (p *places) drain(late <-chan time.Time) (unfinished int64) {
	for _, kind := range []chan struct{}{p.common, p.gpu} { // nobody changes to the former
		for range cap(kind) {
			select {
			case kind <- struct{}{}:
			case <-late:
				return p.taken.Load()
			}
		}
	}
	return 0
}
