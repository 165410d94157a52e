package assembly

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
)

// source is where activations come from: a kafka.Feed or a kafka.Share.
type source interface {
	Next(ctx context.Context) (kafka.Delivery, error)
	Close(ctx context.Context) error
}

// sources lets the invoker pull from its own topic and, where it takes what
// others pass on, from the shared one, while the journal's disk takes what is
// pulled. With one source the caller pulls itself; with two, a goroutine for
// each pulls one activation ahead.
type sources struct {
	journal *journal.Journal // of the first source, nil: there is none
	all     []source
	once    sync.Once
	came    chan pulled
	life    context.Context
	end     context.CancelFunc
	pull    sync.WaitGroup
}

type pulled struct {
	own bool // from the first source
	d   kafka.Delivery
	err error
}

func newSources(j *journal.Journal, all ...source) *sources {
	s := &sources{journal: j, all: all, came: make(chan pulled)}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Next waits for the next activation of any source.
func (s *sources) Next(ctx context.Context) (invoker.Delivery, error) {
	if s.journal != nil {
		if err := s.journal.Ready(ctx); err != nil {
			return invoker.Delivery{}, err
		}
	}
	if len(s.all) == 1 {
		d, err := s.all[0].Next(ctx)
		return s.deliver(pulled{true, d, err})
	}
	s.once.Do(func() {
		for i, from := range s.all {
			s.pull.Go(func() { s.run(from, i == 0) })
		}
	})
	select {
	case p := <-s.came:
		return s.deliver(p)
	case <-ctx.Done():
		return invoker.Delivery{}, ctx.Err()
	}
}

func (s *sources) run(from source, own bool) {
	for {
		d, err := from.Next(s.life)
		select {
		case s.came <- pulled{own, d, err}:
		case <-s.life.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// deliver adds what the journal knows. Of the shared topic it keeps nothing:
// the next taker may be another host.
func (s *sources) deliver(p pulled) (invoker.Delivery, error) {
	if p.err != nil {
		return invoker.Delivery{}, p.err
	}
	d := invoker.Delivery{
		Message: p.d.Message, Offset: p.d.Offset, Begin: p.d.Begin, Done: p.d.Done,
		Begun: p.d.Begun, Attempts: p.d.Attempts,
	}
	if p.own && s.journal != nil {
		recall(s.journal, int(p.d.Partition), &d)
	}
	return d, nil
}

// close ends the pulling and commits what is completed.
func (s *sources) close(ctx context.Context) error {
	s.end()
	s.pull.Wait()
	var errs []error
	for _, from := range s.all {
		errs = append(errs, from.Close(ctx))
	}
	return errors.Join(errs...)
}

// ofInvoker matches the topics that one invoker reads as its own: nobody else
// takes from those.
var ofInvoker = regexp.MustCompile(`^invoker[0-9]+$`)

// takes tells whether this invoker takes what others pass on: it has a GPU, and
// the topic is nobody's own.
func (a *assembly) takes() bool {
	topic := a.c.GPU.ForwardTopic
	return topic != "" && len(a.gpus.devices) > 0 && !ofInvoker.MatchString(topic)
}

// openSources opens what activations come from.
func (a *assembly) openSources(ctx context.Context, topic string) error {
	a.feed = a.cluster.NewFeed(kafka.FeedConfig{Topic: topic, Delay: a.observeDelay()})
	a.from = newSources(a.state.journal, a.feed)
	if !a.takes() {
		return nil
	}
	k := a.c.Kafka
	shared := k.TopicPrefix + a.c.GPU.ForwardTopic
	a.stage.Store("waiting for Kafka to have the topic " + shared)
	spec := kafka.InvokerTopic(shared, k.ReplicationFactor, k.TopicConfig)
	spec.Partitions = a.c.GPU.ForwardPartitions
	if err := a.cluster.EnsureTopic(ctx, spec); err != nil {
		return fmt.Errorf("create topic %s: %w", shared, err)
	}
	var err error
	if a.share, err = a.cluster.NewShare(kafka.ShareConfig{Topic: shared}); err != nil {
		return err
	}
	a.from = newSources(a.state.journal, a.feed, a.share)
	return nil
}

func (a *assembly) closeSources(ctx context.Context) error {
	if a.from == nil {
		return nil
	}
	return a.from.close(ctx)
}
