package kafka

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// A session of a dead member lasts 30 s in the original. A group that still has
// one after so long has one that lives.
const heldTooLong = time.Minute

// committer tells the broker how far a feed's activations are completed, in a
// goroutine of its own, so that a slow coordinator holds up no activation.
type committer struct {
	outage *outage.Outage
	fresh  atomic.Int64  // changes since the last commit began
	ends   atomic.Bool   // one of them is a completion
	dirty  chan struct{} // the first of them; one signal is enough
	full   chan struct{} // so many that the commit should not wait
	ended  chan struct{}
	link   *link
	calls  context.Context // of the link: outlives the feed's until stop gives up
	cut    context.CancelFunc
	held   time.Time // since when the group has a member; zero: it has none
	partly bool      // the last commit could not tell all
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

// completed notes that a completion is to be told.
func (c *committer) completed(after int) {
	c.ends.Store(true)
	c.changed(after, false)
}

// changed notes that there is something to tell, at once where it is urgent.
func (c *committer) changed(after int, urgent bool) {
	n := c.fresh.Add(1)
	if n == 1 || urgent {
		signal(c.dirty)
	}
	if n == int64(after) || urgent {
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
		pause := f.cfg.CommitEvery
		if !c.ends.Swap(false) {
			pause /= 16 // what has only begun may end soon, and nobody told of an end yet
		}
		timer.Reset(pause)
		c.fresh.Store(0)
		c.insist(f)
	}
}

// insist commits until it succeeds or the feed ends, each time the newest
// position.
func (c *committer) insist(f *Feed) {
	for {
		err := c.once(f, false)
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

func (c *committer) once(f *Feed, closing bool) error {
	all := f.unsaved(closing)
	if len(all) == 0 {
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
	err := commitOffsets(c.link, f.cfg.Group, f.cfg.Topic, all)
	if errors.Is(err, wire.OffsetMetadataTooLarge) && f.shorten() {
		return c.once(f, closing)
	}
	if err != nil {
		c.drop()
		return err
	}
	f.saved(all)
	c.tell(f, all)
	return nil
}

// tell says it once when a position could not say all that is completed, and
// once when it can again.
func (c *committer) tell(f *Feed, all []standing) {
	partly := slices.ContainsFunc(all, func(s standing) bool { return !s.whole })
	if partly && !c.partly {
		f.log.Warn("too much is open for the position to tell all that is completed above it: a crash now would run some of that again",
			"group", f.cfg.Group, "open", f.Stats().Open)
	}
	c.partly = partly
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
	f.closing()
	pace := outage.Pace{Min: outage.MinPause, Max: outage.MaxPause}
	for {
		err := c.once(f, true)
		if err == nil || !outage.Wait(ctx, pace.Next()) {
			return err
		}
	}
}
