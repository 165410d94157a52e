package invoker

import (
	"sync"
	"sync/atomic"
	"time"
)

// permits bound what is accepted and not completed. A message is pulled for a
// common permit. An activation that waits for a GPU exchanges that for a GPU
// permit, which is released when its message is spilled: however much waits for
// the devices, and for how long, CPU activations are pulled as if it were not
// there. Only where the GPU backlog is full does an activation keep its common
// permit, so that the pressure reaches Kafka.
type permits struct {
	common  chan struct{} // one for each, and one for the next message
	most    Backlog
	taken   atomic.Int64 // of both kinds, messages not yet pulled left out
	spilled atomic.Int64 // activations that are spilled, without a permit
	leaving atomic.Int64 // of them, that are to be given back

	mu    sync.Mutex
	gpu   int           // permits taken
	bytes int64         // of the messages that hold one
	freed chan struct{} // capacity 1: a GPU permit was released
}

// Backlog bounds the activations that wait for a GPU.
type Backlog struct {
	Activations int
	Bytes       int64 // of the messages that are in memory
}

// What of a backlog is kept in memory where the rest can be spilled: enough for the
// next runs of some hundred functions, little against what an invoker takes.
const (
	nearActivations = 2000
	nearBytes       = 16 << 20
)

func newPermits(common int, gpu Backlog) *permits {
	return &permits{common: make(chan struct{}, common), most: gpu, freed: make(chan struct{}, 1)}
}

// permit is what a pending activation has of them.
type permit struct {
	gpu   bool
	bytes int64
}

// setApart moves a pending activation to a GPU permit, where one is left.
func (ps *permits) setApart(p *pending) {
	if p.permit.gpu {
		return
	}
	bytes := p.size()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if int64(ps.gpu)+ps.spilled.Load() >= int64(ps.most.Activations) || ps.bytes+bytes > ps.most.Bytes {
		return
	}
	ps.take(p)
	<-ps.common
}

// take gives a pending activation a GPU permit. The caller holds the lock.
func (ps *permits) take(p *pending) {
	p.permit = permit{gpu: true, bytes: p.size()}
	ps.gpu++
	ps.bytes += p.permit.bytes
}

// near reports whether another message may be in memory that could be spilled.
func (ps *permits) near() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.gpu < min(nearActivations, ps.most.Activations) && ps.bytes < min(nearBytes, ps.most.Bytes)
}

// spill releases the permit of a pending activation whose message is spilled.
func (ps *permits) spill(p *pending) {
	ps.spilled.Add(1)
	ps.release(p)
}

// unspill gives a permit to a pending activation whose message is read back. There
// is always one: the GPU scheduler orders few messages at a time.
func (ps *permits) unspill(p *pending) {
	ps.taken.Add(1)
	ps.spilled.Add(-1)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.take(p)
}

// release gives a pending activation's permit back.
func (ps *permits) release(p *pending) {
	ps.taken.Add(-1)
	if !p.permit.gpu {
		<-ps.common
		return
	}
	ps.mu.Lock()
	ps.gpu--
	ps.bytes -= p.permit.bytes
	ps.mu.Unlock()
	select {
	case ps.freed <- struct{}{}:
	default:
	}
}

// used is how many GPU permits are taken, and the bytes of their messages.
func (ps *permits) used() (activations int, bytes int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.gpu, ps.bytes
}

// drain waits until all permits are free, which is when every accepted activation
// is completed or stays spilled, or until late. It returns how many are not.
func (ps *permits) drain(late <-chan time.Time) (unfinished int64) {
	for range cap(ps.common) { // no activation changes to a common permit
		select {
		case ps.common <- struct{}{}:
		case <-late:
			return ps.taken.Load()
		}
	}
	for {
		if n, _ := ps.used(); n == 0 && ps.leaving.Load() == 0 {
			return 0
		}
		select {
		case <-ps.freed:
		case <-late:
			return ps.taken.Load()
		}
	}
}
