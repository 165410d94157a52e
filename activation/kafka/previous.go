package kafka

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// PreviousConfig says which pings AwaitPredecessor looks for.
type PreviousConfig struct {
	Topic    string // the health topic
	Instance activation.Instance
	// Dead names a process that is known to have ended; empty if there is none. Its pings, and
	// all earlier pings, are no sign of life.
	Dead string
	// Fresh is the greatest age of a ping that counts as a sign of life: 2 s, two intervals.
	// Silence is the time without pings after which a process that was alive counts as gone: 5
	// s, because a ping may take three to fail before the next one is sent.
	Fresh, Silence time.Duration
	// Seen, when not nil, is called once, if there is another process.
	Seen func(name string)
}

// previousPause is how long the broker may hold an answer back while there is no ping. The
// wait may end later by this time.
const previousPause = 100 * time.Millisecond

// AwaitPredecessor returns when no other process pings with the id of the instance,
// which does not ping yet itself. A ping that is no longer fresh, or a goodbye
// as the last ping, is no process. A fresh one may be the last of a process that
// was killed: only a ping that comes while we listen is of a process that lives,
// which is then waited for until its goodbye or its silence. So a start after a
// kill is delayed until the last ping is two seconds old, and any other not at
// all.
//
// At first the time of the ping, which is that of the other process's host, is
// compared with ours: a process whose clock is late by seconds is not seen.
func (c *Cluster) AwaitPredecessor(ctx context.Context, cfg PreviousConfig) error {
	cfg.Fresh = cmp.Or(cfg.Fresh, 2*time.Second)
	cfg.Silence = cmp.Or(cfg.Silence, 5*time.Second)
	reader := c.reader(cfg.Topic, 0, 1, 1<<20, previousPause)
	p := &previous{PreviousConfig: cfg, log: c.log, pings: healthReader{partitionReader: reader}}
	defer reader.close()
	return p.await(ctx)
}

// previous looks for a process with our id that was here first.
type previous struct {
	PreviousConfig
	log         *slog.Logger
	pings       healthReader
	startEnd    int64     // the end of the topic when we came
	last        time.Time // its last sign of life, by our clock; zero: none
	alive       bool      // it pinged while we listened
	saidGoodbye bool      // it said goodbye
}

func (p *previous) await(ctx context.Context) error {
	searching := retry.New(p.log.With("topic", p.Topic), "looking for another process with this id")
	began := time.Now()
	for {
		err := p.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, wire.UnknownTopicOrPartition) && !p.alive:
			return nil // no process ever pinged
		case err != nil && !p.alive && time.Since(began) > p.Silence:
			p.log.Warn("cannot find out whether another process has the id of this invoker", "topic", p.Topic, "error", err)
			return nil
		case err != nil:
			searching.Wait(ctx, err)
			p.interrupted()
			continue
		}
		searching.Succeeded()
		if p.pings.offset >= p.startEnd && p.gone(time.Now()) {
			if p.alive {
				p.log.Info("the other process with the id of this invoker is gone", "invoker", p.Instance.String(),
					"goodbye", p.saidGoodbye, "waited", time.Since(began).Round(time.Millisecond))
			}
			return nil
		}
	}
}

// interrupted postpones the end of the wait: while pings cannot be read, their absence is not
// silence.
func (p *previous) interrupted() {
	if p.alive {
		p.last = time.Now()
	}
}

// gone reports whether there is no process to wait for.
func (p *previous) gone(now time.Time) bool {
	limit := p.Fresh
	if p.alive {
		limit = p.Silence
	}
	return p.saidGoodbye || now.Sub(p.last) >= limit
}

// poll reads the pings of the last moment, and then the new ones.
func (p *previous) poll(ctx context.Context) error {
	if _, err := p.pings.connect(ctx, 0); err != nil {
		return err
	}
	if !p.pings.located {
		if err := p.locate(ctx); err != nil || p.pings.offset == p.startEnd {
			return err
		}
	}
	received, err := p.pings.read(ctx)
	if err != nil {
		return err
	}
	p.startEnd = min(p.startEnd, p.pings.end) // the log may have been cut meanwhile
	for _, r := range received {
		switch {
		case r.Instance.ID != p.Instance.ID:
		case p.Dead != "" && r.process() == p.Dead:
			p.last, p.saidGoodbye = time.Time{}, false // it had waited for any other itself
		case r.offset < p.startEnd:
			p.found(r)
		default:
			p.notePing(r)
		}
	}
	return nil
}

// locate goes to the first ping that is fresh.
func (p *previous) locate(ctx context.Context) (err error) {
	if p.startEnd, err = p.pings.locate(ctx); err != nil {
		return err
	}
	fresh, err := p.pings.find(ctx, time.Now().Add(-p.Fresh).UnixMilli())
	p.pings.located = err == nil
	if fresh >= 0 { // else no record is as young
		p.pings.offset = fresh
	}
	return err
}

// found handles a ping that was in the topic before this process came.
func (p *previous) found(ping receivedPing) {
	now := time.Now()
	p.saidGoodbye = !ping.Enabled
	// From here on the wall clock does not matter. If the clock were set back by a day during
	// the wait, the wait would otherwise take a day.
	p.last = now.Add(-max(now.Sub(ping.time), 0))
}

// notePing handles a ping that came after this process had begun to read.
func (p *previous) notePing(ping receivedPing) {
	p.saidGoodbye = !ping.Enabled
	p.last = time.Now()
	if p.saidGoodbye || p.alive {
		return
	}
	p.alive = true
	name := ping.Instance.String()
	p.log.Warn("another process with the id of this invoker is alive: waiting for its last ping, or until it sends none",
		"invoker", p.Instance.String(), "other", name, "silence", p.Silence)
	if p.Seen != nil {
		p.Seen(name)
	}
}
