package kafka

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// A session of a dead member lasts 30 s in the original. A group that still has
// one after so long has one that lives.
const heldTooLong = time.Minute

// committer tells the broker how far a feed's activations are completed, in a
// goroutine of its own, so that a slow coordinator holds up no activation.
type committer struct {
	outage *outage.Outage
	fresh  atomic.Int64  // completions since the last commit began
	dirty  chan struct{} // the first of them; one signal is enough
	full   chan struct{} // so many that the commit should not wait
	ended  chan struct{}
	link   *link
	calls  context.Context // of the link: outlives the feed's until stop gives up
	cut    context.CancelFunc
	held   time.Time // since when the group has a member; zero: it has none
}

func (c *committer) start(f *Feed) {
	c.outage = outage.New(f.log.With("group", f.cfg.Group), "committing of the position")
	c.dirty = make(chan struct{}, 1)
	c.full = make(chan struct{}, 1)
	c.ended = make(chan struct{})
	c.calls, c.cut = context.WithCancel(context.Background())
	go func() {
		defer close(c.ended)
		c.run(f)
	}()
}

// completed notes that the position has moved.
func (c *committer) completed(after int) {
	switch c.fresh.Add(1) {
	case 1:
		signal(c.dirty)
	case int64(after):
		signal(c.full)
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run commits at once after a rest, so that a crash makes run again what had
// just ended and no more, and from then on at intervals.
func (c *committer) run(f *Feed) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-c.dirty:
		}
		select {
		case <-f.ctx.Done():
			return
		case <-timer.C:
		case <-c.full:
		}
		timer.Reset(f.cfg.CommitEvery)
		c.fresh.Store(0)
		c.insist(f)
	}
}

// insist commits until it succeeds or the feed ends, each time the newest
// position.
func (c *committer) insist(f *Feed) {
	for {
		err := c.once(f)
		if err == nil {
			c.outage.Over()
			c.held = time.Time{}
			return
		}
		c.watch(f, err)
		if !c.outage.Failed(f.ctx, err) {
			return
		}
	}
}

// watch notices a group whose member does not go away: not one that died.
func (c *committer) watch(f *Feed, err error) {
	switch {
	case !held(err):
		c.held = time.Time{}
	case c.held.IsZero():
		c.held = time.Now()
	case time.Since(c.held) > heldTooLong:
		f.log.Error("group has a living member: another invoker with this id reads the same activations",
			"group", f.cfg.Group)
		c.held = time.Now()
	}
}

func (c *committer) once(f *Feed) error {
	position, epoch, ok := f.uncommitted()
	if !ok {
		return nil
	}
	if c.link != nil && c.link.rested() {
		c.drop()
	}
	if c.link == nil {
		l, err := f.cluster.coordinator(c.calls, f.cfg.Group)
		if err != nil {
			return err
		}
		c.link = l
	}
	if err := commitOffset(c.link, f.cfg.Group, f.cfg.Topic, position); err != nil {
		c.drop()
		return err
	}
	f.committed(position, epoch)
	return nil
}

func (c *committer) drop() {
	c.link.close()
	c.link = nil
}

// stop waits for the goroutine and commits a last time, over the same link: a
// commit that is under way must not be overtaken, or its older position would
// be what the next process reads.
func (c *committer) stop(ctx context.Context, f *Feed) error {
	defer context.AfterFunc(ctx, c.cut)()
	defer c.cut()
	<-c.ended
	defer c.drop()
	pace := outage.Pace{Min: outage.MinPause, Max: outage.MaxPause}
	for {
		err := c.once(f)
		if err == nil || !outage.Wait(ctx, pace.Next()) {
			return err
		}
	}
}
