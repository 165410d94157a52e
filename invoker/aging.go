package invoker

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Retention is for how long the feed's topic keeps a message, at least: until it
// has that age, or until so many bytes came after it. 0 is for ever.
type Retention struct {
	Time  time.Duration
	Bytes int64
}

// aging lists the accepted activations whose messages only the feed has, in the
// order in which they came. What gets half as old as the topic's retention is
// spilled, whatever it waits for or does: were this process to end later, its
// message might not be there any more.
type aging struct {
	keeps Retention
	store SpillStore
	clock func() time.Duration

	mu   sync.Mutex
	all  list.List // of *pending, the oldest first
	read int64     // bytes of messages so far
}

// newAging is nil where nothing grows old.
func newAging(s Settings, store SpillStore, clock func() time.Duration) *aging {
	if store == nil || s.Retention == (Retention{}) {
		return nil
	}
	return &aging{keeps: s.Retention, store: store, clock: clock}
}

// add lists a pending activation.
func (ag *aging) add(p *pending) {
	if ag == nil || p.Unlisted {
		return
	}
	ag.mu.Lock()
	defer ag.mu.Unlock()
	p.age, p.before = ag.all.PushBack(p), ag.read
	ag.read += p.size()
}

// remove takes a pending activation off the list, if it is there.
func (ag *aging) remove(p *pending) {
	if ag == nil {
		return
	}
	ag.mu.Lock()
	defer ag.mu.Unlock()
	if p.age != nil {
		ag.all.Remove(p.age)
		p.age = nil
	}
}

// Bounds of the time between two polls.
const (
	agingPollMin = 100 * time.Millisecond
	agingPollMax = 10 * time.Second
)

// watch spills what grows old, until ctx ends.
func (ag *aging) watch(ctx context.Context) {
	if ag == nil {
		return
	}
	every := min(max(ag.keeps.Time/20, agingPollMin), agingPollMax)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for ag.spill(ag.due(every)) {
		}
	}
}

// due lists the oldest of those that would be too old at the next poll.
func (ag *aging) due(every time.Duration) (all []*pending) {
	ag.mu.Lock()
	defer ag.mu.Unlock()
	for e := ag.all.Front(); e != nil && len(all) < spillBatch; e = e.Next() {
		p := e.Value.(*pending)
		late := ag.keeps.Time > 0 && 2*(ag.clock()+every-p.accepted) >= ag.keeps.Time
		behind := ag.keeps.Bytes > 0 && 2*(ag.read-p.before) >= ag.keeps.Bytes
		if !late && !behind {
			break
		}
		all = append(all, p)
	}
	return all
}

// spill commits those whose messages are on disk, and reports whether there may be
// more. The others are tried again at the next poll.
func (ag *aging) spill(all []*pending) bool {
	if len(all) == 0 {
		return false
	}
	well := true
	for i, err := range writeMessages(ag.store, all) {
		if err != nil {
			well = false
			continue
		}
		ag.remove(all[i])
		all[i].commit()
	}
	return well && len(all) == spillBatch
}
