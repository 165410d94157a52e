package assembly

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
)

// source is the topic of the invoker: a kafka.Feed.
type source interface {
	Next(ctx context.Context) (kafka.Delivery, error)
	Close(ctx context.Context) error
}

// sources is the invoker's feed. It combines the invoker's own topic with the activations that
// an earlier process left in the journal. It pulls nothing from the topic while the journal's
// disk does not keep up. While the journal has such activations, one goroutine for each of the
// two pulls one activation ahead. After that the caller of Next pulls from the topic. In
// scheduler mode there is no topic, and activations arrive only through deliver.
type sources struct {
	journal    *journal.Journal // nil: there is none
	log        *slog.Logger
	topic      source               // nil in scheduler mode
	unfinished []journal.Unfinished // by a former process
	once       sync.Once
	incoming   chan pulled
	life       context.Context
	end        context.CancelFunc
	pull       sync.WaitGroup
	keep       time.Duration
}

type pulled struct {
	d   invoker.Delivery
	err error
}

// newSources takes a nil topic in scheduler mode.
func newSources(j *journal.Journal, log *slog.Logger, topic source) *sources {
	s := &sources{journal: j, log: log, topic: topic, incoming: make(chan pulled), keep: keepTime}
	s.life, s.end = context.WithCancel(context.Background())
	if j == nil {
		return s
	}
	if s.unfinished = j.Unfinished(); len(s.unfinished) > 0 {
		log.Info("activations of a former process wait in the journal", "activations", len(s.unfinished))
	}
	return s
}

// Next waits for the next activation.
func (s *sources) Next(ctx context.Context) (invoker.Delivery, error) {
	if s.journal != nil && s.topic != nil {
		if err := s.journal.Ready(ctx); err != nil {
			return invoker.Delivery{}, err
		}
	}
	if s.topic != nil && len(s.unfinished) == 0 {
		return s.fromTopic(ctx)
	}
	s.once.Do(func() {
		if s.topic != nil {
			s.pull.Go(s.run)
		}
		s.pull.Go(s.resume)
	})
	select {
	case p := <-s.incoming:
		return p.d, p.err
	case <-ctx.Done():
		return invoker.Delivery{}, ctx.Err()
	}
}

// run emits the activations of the topic.
func (s *sources) run() {
	for {
		d, err := s.fromTopic(s.life)
		if s.emit(s.life, pulled{d, err}) != nil || err != nil {
			return
		}
	}
}

// resume emits the activations that an earlier process left in the journal.
func (s *sources) resume() {
	for _, l := range s.unfinished {
		d, err := resumed(s.journal, l)
		switch {
		case errors.Is(err, journal.ErrNoMessage): // Kafka's copy came first
		case err != nil:
			s.log.Error("an activation of a former process cannot be read from the journal, and is lost unless Kafka has it",
				"activation", l.ID, "partition", l.Partition, "offset", l.Offset, "error", err)
		case s.deliver(s.life, d) != nil:
			return
		}
	}
}

// emit passes a pulled activation to the invoker. It blocks until the invoker takes the
// activation.
func (s *sources) emit(ctx context.Context, p pulled) error {
	select {
	case s.incoming <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.life.Done():
		return s.life.Err()
	}
}

// deliver emits an activation that came from neither the topic nor the journal.
func (s *sources) deliver(ctx context.Context, d invoker.Delivery) error {
	return s.emit(ctx, pulled{d: d})
}

// fromTopic pulls from the topic and adds the journal's state.
func (s *sources) fromTopic(ctx context.Context) (invoker.Delivery, error) {
	for {
		k, err := s.topic.Next(ctx)
		if err != nil {
			return invoker.Delivery{}, err
		}
		d := invoker.Delivery{
			Message: k.Message, Offset: k.Offset, Done: k.Done, History: delivery.Marked(k.Mark),
			Commit: func(killed, stopped delivery.Mark) { s.commit(k, killed, stopped) },
		}
		if s.journal == nil || recall(s.journal, int(k.Partition), &d) {
			return d, nil
		}
		k.Done()
	}
}

// keepTime bounds how long a run waits for the broker if no journal has its start.
const keepTime = time.Second

// commit stores the marks of an activation that begins to run, and waits for the broker. A
// process that is killed right after the start would otherwise leave no trace of the run, and
// the next process would run the activation again.
func (s *sources) commit(d kafka.Delivery, killed, stopped delivery.Mark) {
	ctx, cancel := context.WithTimeout(context.Background(), s.keep)
	defer cancel()
	if err := d.Commit(ctx, killed, stopped); err != nil {
		s.log.Debug("start of an activation is not committed yet", "activation", d.Message.ActivationID, "error", err)
	}
}

// close ends the pulling and commits the completed offsets.
func (s *sources) close(ctx context.Context) error {
	s.end()
	s.pull.Wait()
	if s.topic == nil {
		return nil
	}
	return s.topic.Close(ctx)
}

// openSources opens the sources of activations.
func (a *classic) openSources(topic string) hooks {
	cfg := kafka.FeedConfig{Topic: topic, Delay: a.observeDelay()}
	if j := a.state.journal; j != nil {
		cfg.Journaled = true
		cfg.Committed = func(partition int32, below int64) {
			j.ForgetBelow(int(partition), func(offset int64) bool { return offset < below })
		}
	}
	a.feed = a.messaging.cluster.NewFeed(cfg)
	a.from = newSources(a.state.journal, a.Log, a.feed)
	a.gpuHosts = newGPUHosts(a.instance.ID, a.c.GPU.ForwardInvokers())
	return hooks{close: a.from.close, status: a.sourcesStatus, gauges: sourcesGauges}
}

func (a *classic) sourcesStatus(s *status) {
	k := &s.Kafka
	k.Feed = a.feed.Stats()
	k.Lag = k.Feed.Lag()
	s.because("reading activations", k.Feed.Interrupted)
	s.because("committing offsets", k.Feed.CommitFailing)
	k.Forward = a.gpuHosts.statuses()
}

func sourcesGauges(s *status, m sink) {
	m.gauge("kafka_lag", "Messages that wait on the invoker's topic.", float64(s.Kafka.Lag))
}
