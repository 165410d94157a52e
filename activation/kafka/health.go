package kafka

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// processHeader is the header of a ping with the name of the process that sent it. Without it
// the pings of two processes may be equal. Controllers read no headers.
const processHeader = "gpuwhisk-process"

// backlogHeader is the header in which an invoker with a GPU that can be used says for how
// many milliseconds its waiting activations keep its devices busy.
const backlogHeader = "gpuwhisk-gpu-backlog"

// healthReader reads the pings of all senders from the health topic. It is not safe for
// concurrent use.
type healthReader struct {
	*partitionReader
	located bool // the reader stands where reading goes on
}

// receivedPing is a ping and its record.
type receivedPing struct {
	activation.Ping
	record
}

// process returns the name that the sender of the ping gives itself. It is empty if the sender
// is another program.
func (p *receivedPing) process() string { return p.header(processHeader) }

// header returns the value of a header, "" if there is none.
func (p *receivedPing) header(key string) string {
	i := slices.IndexFunc(p.headers, func(h wire.Header) bool { return h.Key == key })
	if i < 0 {
		return ""
	}
	return string(p.headers[i].Value)
}

// HeardPing is a ping of any invoker.
type HeardPing struct {
	activation.Ping
	// GPU is set if the invoker has a GPU that can be used. Backlog is for how long its
	// waiting activations keep its devices busy.
	GPU     bool
	Backlog time.Duration
}

func (p *receivedPing) heard() HeardPing {
	ms, err := strconv.ParseUint(p.header(backlogHeader), 10, 40)
	return HeardPing{Ping: p.Ping, GPU: err == nil, Backlog: time.Duration(ms) * time.Millisecond}
}

// locate moves to the end of the topic and returns the offset there.
func (h *healthReader) locate(ctx context.Context) (end int64, err error) {
	if end, err = h.find(ctx, wire.LastOffset); err == nil {
		h.offset, h.located = end, true
	}
	return end, err
}

// read waits a while for more pings. After an error about the topic itself, locate must be
// called again.
func (h *healthReader) read(ctx context.Context) (all []receivedPing, err error) {
	records, err := h.fetch(ctx)
	if err != nil {
		h.located = code(err) == 0
		return nil, err
	}
	for _, r := range records {
		ping, err := activation.DecodePing(r.value)
		if err == nil {
			all = append(all, receivedPing{ping, r})
		}
	}
	return all, nil
}

// Another process counts as a second process if this many of its pings with our id arrive
// within the window. A predecessor that is about to end sends fewer.
const (
	duplicatePings  = 3
	duplicateWindow = 10 // times the interval between pings
)

// healthWatch reads the health topic. It notices pings with our id that another process sent,
// and reports all pings if heard is set.
type healthWatch struct {
	healthReader
	instance activation.Instance
	heard    func(all []HeardPing) // nil: nobody asks
	log      *slog.Logger
	process  string // our own
	window   time.Duration
	reading  *retry.Retrier

	mu         sync.Mutex
	otherPings []time.Time // when pings of others were read, in the window
	other      string      // the second process; empty: none
}

func newHealthWatch(c *Cluster, cfg PingerConfig) *healthWatch {
	// Many invokers ping. The broker gathers pings for a while, so that the watch wakes less
	// often.
	pause := 2 * cfg.Every
	if cfg.Heard != nil {
		pause = cfg.Every / 2
	}
	return &healthWatch{
		healthReader: healthReader{partitionReader: c.reader(cfg.Topic, 0, 64<<10, 1<<20, pause)},
		instance:     cfg.Instance,
		heard:        cfg.Heard,
		log:          c.log,
		process:      cfg.Process,
		window:       duplicateWindow * cfg.Every,
		reading:      retry.New(c.log.With("topic", cfg.Topic), "reading of pings"),
	}
}

// run reads the topic from its end until ctx ends.
func (w *healthWatch) run(ctx context.Context) {
	defer w.close()
	for ctx.Err() == nil {
		if err := w.poll(ctx); err != nil {
			w.reading.Wait(ctx, err)
			continue
		}
		w.reading.Succeeded()
	}
}

func (w *healthWatch) poll(ctx context.Context) error {
	if _, err := w.connect(ctx, 0); err != nil {
		return err
	}
	if !w.located {
		if _, err := w.locate(ctx); err != nil {
			return err
		}
	}
	received, err := w.read(ctx)
	if err != nil {
		return err
	}
	w.judge(received, time.Now())
	if w.heard != nil {
		all := make([]HeardPing, len(received))
		for i := range received {
			all[i] = received[i].heard()
		}
		w.heard(all)
	}
	return nil
}

// judge logs when a second process appears and when it is gone.
func (w *healthWatch) judge(received []receivedPing, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := ""
	for _, p := range received {
		if p.Instance.ID == w.instance.ID && p.process() != w.process {
			w.otherPings, last = append(w.otherPings, now), p.Instance.String()
		}
	}
	w.otherPings = slices.DeleteFunc(w.otherPings, func(at time.Time) bool { return now.Sub(at) > w.window })
	switch {
	case w.other == "" && len(w.otherPings) >= duplicatePings && last != "":
		w.other = last
		w.log.Error("a second process pings with the id of this invoker: both will run the same activations",
			"invoker", w.instance.String(), "other", w.other)
	case w.other != "" && len(w.otherPings) == 0:
		w.other = ""
		w.log.Info("the second process with the id of this invoker is gone",
			"invoker", w.instance.String())
	}
}

// name returns the name of the second process, "" if there is none.
func (w *healthWatch) name() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.other
}
