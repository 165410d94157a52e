package kafka

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// processHeader is the header of a ping that names the process that sent it: the
// content of two processes' pings may be the same byte for byte. Controllers read
// no headers.
const processHeader = "gpuwhisk-process"

// healthReader reads the pings of one invoker from the health topic, whichever
// process sent them. One goroutine at a time uses it.
type healthReader struct {
	*partitionReader
	instance activation.Instance
	located  bool // the reader stands where reading goes on
}

// receivedPing is a ping and its record.
type receivedPing struct {
	activation.Ping
	record
}

// process is what the ping's sender calls itself; empty: it is of another program.
func (p *receivedPing) process() string {
	i := slices.IndexFunc(p.headers, func(h wire.Header) bool { return h.Key == processHeader })
	if i < 0 {
		return ""
	}
	return string(p.headers[i].Value)
}

// locate goes to the end of the topic, and reports where it is.
func (h *healthReader) locate(ctx context.Context) (end int64, err error) {
	if end, err = h.find(ctx, wire.LastOffset); err == nil {
		h.offset, h.located = end, true
	}
	return end, err
}

// read waits a while for more pings. After an error about the topic itself locate has
// to be called again.
func (h *healthReader) read(ctx context.Context) (all []receivedPing, err error) {
	records, err := h.fetch(ctx)
	if err != nil {
		h.located = code(err) == 0
		return nil, err
	}
	for _, r := range records {
		ping, err := activation.DecodePing(r.value)
		if err == nil && ping.Instance.ID == h.instance.ID {
			all = append(all, receivedPing{ping, r})
		}
	}
	return all, nil
}

// So many pings with our id of another process, within so long, mean a second
// process. A predecessor that is about to end sends fewer.
const (
	duplicatePings  = 3
	duplicateWindow = 10 // times the interval between pings
)

// duplicateWatch reads the health topic for pings with our id that are not ours.
type duplicateWatch struct {
	healthReader
	log     *slog.Logger
	process string // our own
	window  time.Duration
	reading *retry.Retrier

	mu     sync.Mutex
	others []time.Time // when pings of others were read, in the window
	other  string      // the second process; empty: none
}

func newDuplicateWatch(c *Cluster, topic, process string, i activation.Instance, every time.Duration) *duplicateWatch {
	return &duplicateWatch{
		// Many invokers ping: rather than wake for each, let the broker gather.
		healthReader: healthReader{partitionReader: c.reader(topic, 0, 64<<10, 1<<20, 2*every), instance: i},
		log:          c.log,
		process:      process,
		window:       duplicateWindow * every,
		reading:      retry.New(c.log.With("topic", topic), "watching for a second process"),
	}
}

// run reads the topic from its end until ctx ends.
func (w *duplicateWatch) run(ctx context.Context) {
	defer w.close()
	for ctx.Err() == nil {
		if err := w.poll(ctx); err != nil {
			w.reading.Wait(ctx, err)
			continue
		}
		w.reading.Succeeded()
	}
}

func (w *duplicateWatch) poll(ctx context.Context) error {
	if _, err := w.connect(ctx, 0); err != nil {
		return err
	}
	if !w.located {
		if _, err := w.locate(ctx); err != nil {
			return err
		}
	}
	received, err := w.read(ctx)
	if err == nil {
		w.judge(received, time.Now())
	}
	return err
}

// judge logs when a second process appears and when it is gone.
func (w *duplicateWatch) judge(received []receivedPing, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := ""
	for _, p := range received {
		if p.process() != w.process {
			w.others, last = append(w.others, now), p.Instance.String()
		}
	}
	w.others = slices.DeleteFunc(w.others, func(at time.Time) bool { return now.Sub(at) > w.window })
	switch {
	case w.other == "" && len(w.others) >= duplicatePings && last != "":
		w.other = last
		w.log.Error("a second process pings with the id of this invoker: both will run the same activations",
			"invoker", w.instance.String(), "other", w.other)
	case w.other != "" && len(w.others) == 0:
		w.other = ""
		w.log.Info("the second process with the id of this invoker is gone",
			"invoker", w.instance.String())
	}
}

// name is the second process, empty when there is none.
func (w *duplicateWatch) name() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.other
}
