package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/outage"
	wire "github.com/segmentio/kafka-go"
)

// ElderConfig says whose pings AwaitElder looks for.
type ElderConfig struct {
	Topic    string // the health topic
	Instance activation.Instance
	// Past, when not zero, is the offset after the last ping of a process that
	// is known to have ended: it and what came before are no sign of life.
	Past int64
	// Fresh is how young a ping must be to be one: 2 s, two intervals. Silence is
	// how long an elder that was seen alive may say nothing before it counts as
	// gone: 5 s, for a ping may take three to fail and then another one to come.
	Fresh, Silence time.Duration
	// Seen, when not nil, is told once, when an elder is there.
	Seen func(name string)
}

// elderPause is how long the broker may hold an answer back when there is no
// ping: how late the end of the wait may be.
const elderPause = 100 * time.Millisecond

// elder looks for a process with our id that was here first.
type elder struct {
	ElderConfig
	cluster *Cluster
	tail    *tail
	last    time.Time // its last sign of life, by our clock; zero: none
	alive   bool      // it pinged while we listened
	over    bool      // it said goodbye
}

// AwaitElder returns when no other process pings with the id of the instance,
// which does not ping yet itself. A ping that is no longer fresh, or a goodbye
// as the last word, is nobody. A fresh one may be the last of a process that
// was killed: only one that comes while we listen is an elder, which is then
// waited for until it says goodbye or is silent. So a start after a kill is
// delayed until the last ping is two seconds old, and any other not at all.
//
// The first look compares the time of the ping, which is that of the elder's
// host, with ours: an elder whose clock is late by seconds is not seen.
func (c *Cluster) AwaitElder(ctx context.Context, cfg ElderConfig) error {
	if cfg.Fresh == 0 {
		cfg.Fresh = 2 * time.Second
	}
	if cfg.Silence == 0 {
		cfg.Silence = 5 * time.Second
	}
	e := &elder{ElderConfig: cfg, cluster: c, tail: newTail(c, cfg.Topic, 0, 1, 1<<20, elderPause)}
	defer e.tail.drop()
	return e.await(ctx)
}

func (e *elder) await(ctx context.Context) error {
	away := outage.New(e.cluster.log.With("topic", e.Topic), "looking for another process with this id")
	began := time.Now()
	located := false
	for {
		err := e.look(ctx, &located)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, wire.UnknownTopicOrPartition) && !e.alive:
			return nil // nobody ever pinged
		case err != nil:
			e.tail.drop()
			if !e.alive && time.Since(began) > e.Silence {
				e.cluster.log.Warn("whether another process has the id of this invoker cannot be found out", "topic", e.Topic, "error", err)
				return nil
			}
			away.Failed(ctx, err)
			e.heard() // what cannot be heard is not silence
			continue
		}
		away.Over()
		if e.gone(time.Now()) {
			if e.alive {
				e.cluster.log.Info("the other process with the id of this invoker is gone", "invoker", e.Instance.String(),
					"goodbye", e.over, "waited", time.Since(began).Round(time.Millisecond))
			}
			return nil
		}
	}
}

// heard puts the end of an elder's patience off.
func (e *elder) heard() {
	if e.alive {
		e.last = time.Now()
	}
}

// gone tells whether there is nobody to wait for.
func (e *elder) gone(now time.Time) bool {
	limit := e.Fresh
	if e.alive {
		limit = e.Silence
	}
	return e.over || now.Sub(e.last) >= limit
}

// look reads the pings of the last moment, and after that those that come.
func (e *elder) look(ctx context.Context, located *bool) error {
	if _, err := e.tail.connect(ctx); err != nil {
		return err
	}
	if *located {
		return e.read(located, e.come)
	}
	end, err := e.tail.edge(logEnd)
	if err != nil {
		return err
	}
	if e.Past > end { // the topic was made anew
		e.Past = 0
	}
	e.tail.offset, err = e.tail.edge(time.Now().Add(-e.Fresh).UnixMilli())
	if err != nil {
		return err
	}
	if e.tail.offset < 0 { // no record is as young
		e.tail.offset = end
	}
	*located = true
	for e.tail.offset < end && *located {
		at := e.tail.offset
		if err := e.read(located, e.before); err != nil {
			return err
		}
		if e.tail.offset == at && e.tail.end <= at { // the log was cut meanwhile
			break
		}
	}
	return nil
}

func (e *elder) read(located *bool, each func(ping activation.Ping, sent time.Time)) error {
	records, err := e.tail.fetch()
	if err != nil {
		*located = code(err) == 0
		return err
	}
	for _, r := range records {
		ping, err := activation.DecodePing(r.value)
		if err == nil && ping.Instance.ID == e.Instance.ID && r.offset >= e.Past {
			each(ping, r.time)
		}
	}
	return nil
}

// before takes note of a ping that was there when we came.
func (e *elder) before(ping activation.Ping, sent time.Time) {
	now := time.Now()
	e.over = !ping.Enabled
	// From here on the wall clock does not matter: were it stepped back by a day
	// while we wait, we should wait for a day.
	e.last = now.Add(-max(now.Sub(sent), 0))
}

// come takes note of a ping that came while we listened.
func (e *elder) come(ping activation.Ping, _ time.Time) {
	e.over = !ping.Enabled
	e.last = time.Now()
	if e.over || e.alive {
		return
	}
	e.alive = true
	name := ping.Instance.String()
	e.cluster.log.Warn("another process with the id of this invoker is alive: waiting until it says goodbye or is silent",
		"invoker", e.Instance.String(), "other", name, "silence", e.Silence)
	if e.Seen != nil {
		e.Seen(name)
	}
}
