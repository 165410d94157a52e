package invoker

import (
	"sync"
	"sync/atomic"
	"time"
)

// places bound what is accepted and not completed. A message is pulled for a
// common place. An activation that waits for a GPU gives that back and takes one
// of its own kind, which it gives back when its message is parked: whatever
// stands before the devices, and for how long, CPU activations are pulled as if
// it were not there. Only where the GPU backlog is full does an activation keep
// its common place, so that pressure reaches Kafka.
type places struct {
	common chan struct{} // one for each, and one for the next message
	most   Backlog
	taken  atomic.Int64 // of both kinds, messages not yet pulled left out
	parked atomic.Int64 // activations without a place

	mu    sync.Mutex
	gpu   int           // places taken
	bytes int64         // of the messages that hold one
	freed chan struct{} // a GPU place was; one signal is enough
}

// Backlog bounds the activations that wait for a GPU.
type Backlog struct {
	Activations int
	Bytes       int64 // of the messages that are in memory
}

// What of a backlog is in memory where the rest can be parked: enough for the
// next runs of some hundred functions, little against what an invoker takes.
const (
	nearActivations = 2000
	nearBytes       = 16 << 20
)

func newPlaces(common int, gpu Backlog) *places {
	return &places{common: make(chan struct{}, common), most: gpu, freed: make(chan struct{}, 1)}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(p.gpu)+p.parked.Load() >= int64(p.most.Activations) || p.bytes+bytes > p.most.Bytes {
		return
	}
	p.take(c, bytes)
	<-p.common
}

func (p *places) take(c *claim, bytes int64) {
	p.gpu++
	p.bytes += bytes
	*c = claim{gpu: true, bytes: bytes}
}

// near tells whether another message may be in memory that could be parked.
func (p *places) near() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gpu < min(nearActivations, p.most.Activations) && p.bytes < min(nearBytes, p.most.Bytes)
}

// park takes the place of a ticket whose message is parked.
func (p *places) park(c claim) {
	p.parked.Add(1)
	p.release(c)
}

// bring gives a ticket of a parked message a place, which there is in any case:
// what must run or be answered is bounded by who asks for it.
func (p *places) bring(c *claim, bytes int64) {
	p.taken.Add(1)
	p.parked.Add(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(c, bytes)
}

// release gives a ticket's place back.
func (p *places) release(c claim) {
	p.taken.Add(-1)
	if !c.gpu {
		<-p.common
		return
	}
	p.mu.Lock()
	p.gpu--
	p.bytes -= c.bytes
	p.mu.Unlock()
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// held is how many GPU places are taken, and the bytes of their messages.
func (p *places) held() (activations int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gpu, p.bytes
}

// drain waits until all places are free, which is when every accepted activation
// is completed or parked, or until late. It returns how many are not.
func (p *places) drain(late <-chan time.Time) (unfinished int64) {
	for range cap(p.common) { // nobody changes to a common place
		select {
		case p.common <- struct{}{}:
		case <-late:
			return p.taken.Load()
		}
	}
	for {
		if n, _ := p.held(); n == 0 {
			return 0
		}
		select {
		case <-p.freed:
		case <-late:
			return p.taken.Load()
		}
	}
}
