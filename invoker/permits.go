package invoker

import (
	"sync"
	"sync/atomic"
	"time"
)

// permits bound the activations that are accepted and not completed. A message is pulled
// for a common permit. An activation that waits for a GPU exchanges its common permit for
// a share of the GPU backlog, so that CPU activations are pulled however long the devices
// are busy. Where the GPU backlog is full the activation keeps its common permit, so that
// the pressure reaches Kafka.
type permits struct {
	common chan struct{} // one for each, and one for the next message
	most   int64         // bytes of the GPU backlog
	taken  atomic.Int64  // of both kinds, messages not yet pulled left out

	mu    sync.Mutex
	gpu   int           // activations of the GPU backlog
	bytes int64         // of their messages
	freed chan struct{} // capacity 1: one left the GPU backlog
}

func newPermits(common int, backlogBytes int64) *permits {
	return &permits{common: make(chan struct{}, common), most: backlogBytes, freed: make(chan struct{}, 1)}
}

// permit is what a pending activation has of them.
type permit struct {
	gpu   bool
	bytes int64
}

// setApart moves a pending activation to the GPU backlog, if that has space.
func (ps *permits) setApart(p *pending) {
	if p.permit.gpu {
		return
	}
	bytes := p.size()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.bytes+bytes > ps.most {
		return
	}
	p.permit = permit{gpu: true, bytes: bytes}
	ps.gpu++
	ps.bytes += bytes
	<-ps.common
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

// used returns how many activations the GPU backlog has, and the bytes of their messages.
func (ps *permits) used() (activations int, bytes int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.gpu, ps.bytes
}

func (ps *permits) status() *BacklogStatus {
	activations, bytes := ps.used()
	return &BacklogStatus{Activations: activations, Bytes: bytes, Limit: ps.most}
}

// drain waits until every accepted activation is completed, or until late. It returns
// how many are not.
func (ps *permits) drain(late <-chan time.Time) (unfinished int64) {
	for range cap(ps.common) { // no activation changes to a common permit
		select {
		case ps.common <- struct{}{}:
		case <-late:
			return ps.taken.Load()
		}
	}
	for {
		if n, _ := ps.used(); n == 0 {
			return 0
		}
		select {
		case <-ps.freed:
		case <-late:
			return ps.taken.Load()
		}
	}
}
