package assembly

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
)

// source is where activations come from: a kafka.Feed or a kafka.Member.
type source interface {
	Next(ctx context.Context) (kafka.Delivery, error)
	Close(ctx context.Context) error
}

// sources is the invoker's feed: of its own topic, of what a former process left in
// the journal and, where it consumes that, of the forward topic. It pulls nothing
// from them while the journal's disk does not keep up. With one source the caller
// pulls itself; with more, a goroutine for each pulls one activation ahead. Without
// one it has what is given to deliver.
type sources struct {
	journal *journal.Journal // of the first source, nil: there is none
	log     *slog.Logger
	all     []source
	left    []journal.Unfinished // by a former process
	once    sync.Once
	came    chan pulled
	life    context.Context
	end     context.CancelFunc
	pull    sync.WaitGroup
	keep    time.Duration
}

type pulled struct {
	d   invoker.Delivery
	err error
}

func newSources(j *journal.Journal, log *slog.Logger, all ...source) *sources {
	s := &sources{journal: j, log: log, all: all, came: make(chan pulled), keep: keepTime}
	s.life, s.end = context.WithCancel(context.Background())
	if j == nil {
		return s
	}
	if s.left = j.Unfinished(); len(s.left) > 0 {
		log.Info("activations of a former process wait in the journal", "activations", len(s.left))
	}
	return s
}

// Next waits for the next activation of any source.
func (s *sources) Next(ctx context.Context) (invoker.Delivery, error) {
	if s.journal != nil && len(s.all) > 0 {
		if err := s.journal.Ready(ctx); err != nil {
			return invoker.Delivery{}, err
		}
	}
	if len(s.all) == 1 && len(s.left) == 0 {
		return s.from(ctx, 0)
	}
	s.once.Do(func() {
		for i := range s.all {
			s.pull.Go(func() { s.run(i) })
		}
		s.pull.Go(s.resume)
	})
	select {
	case p := <-s.came:
		return p.d, p.err
	case <-ctx.Done():
		return invoker.Delivery{}, ctx.Err()
	}
}

// run emits what comes from one source.
func (s *sources) run(i int) {
	for {
		d, err := s.from(s.life, i)
		if s.emit(s.life, pulled{d, err}) != nil || err != nil {
			return
		}
	}
}

// resume emits what a former process left in the journal.
func (s *sources) resume() {
	for _, l := range s.left {
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

// emit gives the invoker what was pulled, and waits until that takes it.
func (s *sources) emit(ctx context.Context, p pulled) error {
	select {
	case s.came <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.life.Done():
		return s.life.Err()
	}
}

// deliver emits what came of no source.
func (s *sources) deliver(ctx context.Context, d invoker.Delivery) error {
	return s.emit(ctx, pulled{d: d})
}

// from pulls from one source and adds the journal's state. The journal has nothing
// of the shared topic: the next member may be another host.
func (s *sources) from(ctx context.Context, i int) (invoker.Delivery, error) {
	for {
		k, err := s.all[i].Next(ctx)
		if err != nil {
			return invoker.Delivery{}, err
		}
		d := invoker.Delivery{
			Message: k.Message, Offset: k.Offset, Begin: func() { s.begin(k, i == 0) }, Done: k.Done, Begun: k.Begun, Attempts: k.Attempts,
			Unlisted: i > 0,
		}
		if i > 0 || s.journal == nil || recall(s.journal, int(k.Partition), &d) {
			return d, nil
		}
		k.Done()
	}
}

// keepTime bounds how long a run waits for the broker where no journal has its start.
const keepTime = time.Second

// begin reports that an activation begins to run. The feed commits that within a few
// milliseconds; where no journal has it, and of the shared topic none has, before the
// run, or a process that is killed then would leave no trace of it, and the next one run
// it again.
func (s *sources) begin(d kafka.Delivery, own bool) {
	d.Begin()
	if !own || s.journal == nil || !s.journal.Health().OK() {
		ctx, cancel := context.WithTimeout(context.Background(), s.keep)
		defer cancel()
		d.Keep(ctx)
	}
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

// ofInvoker matches the topics that belong to one invoker.
var ofInvoker = regexp.MustCompile(`^invoker[0-9]+$`)

// consumesForwarded reports whether this invoker consumes the forward topic: it has
// a GPU, and the topic does not belong to a single invoker.
func (a *assembly) consumesForwarded() bool {
	topic := a.c.GPU.ForwardTopic
	return topic != "" && len(a.gpus.devices) > 0 && !ofInvoker.MatchString(topic)
}

// openSources opens what activations come from.
func (a *assembly) openSources(ctx context.Context, topic string) (hooks, error) {
	a.feed = a.cluster.NewFeed(kafka.FeedConfig{Topic: topic, Journaled: a.state.journal != nil, Delay: a.observeDelay()})
	h := hooks{close: func(ctx context.Context) error { return a.from.close(ctx) }, status: a.sourcesStatus, gauges: sourcesGauges}
	a.from = newSources(a.state.journal, a.Log, a.feed)
	if !a.consumesForwarded() {
		return h, nil
	}
	shared := a.c.Kafka.TopicPrefix + a.c.GPU.ForwardTopic
	if err := a.ensureTopic(ctx, shared, a.c.GPU.ForwardPartitions); err != nil {
		return h, err
	}
	member, err := a.cluster.NewMember(kafka.MemberConfig{Topic: shared})
	if err != nil {
		return h, err
	}
	a.forwarded = member
	a.from = newSources(a.state.journal, a.Log, a.feed, member)
	return h, nil
}

func (a *assembly) sourcesStatus(s *status) {
	k := &s.Kafka
	k.Feed = a.feed.Stats()
	k.Lag = k.Feed.Lag()
	s.because("reading activations", k.Feed.Interrupted)
	s.because("committing offsets", k.Feed.CommitFailing)
	if a.forwarded == nil {
		return
	}
	k.Forward = new(a.forwarded.Stats())
	k.Lag += k.Forward.Waiting
	s.because("reading of the forward topic", k.Forward.Interrupted)
	s.because("committing of the forward topic", k.Forward.CommitFailing)
}

func sourcesGauges(s *status, m sink) {
	m.gauge("kafka_lag", "Messages that wait on the invoker's topic.", float64(s.Kafka.Lag))
}
