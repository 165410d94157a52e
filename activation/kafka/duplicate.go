package kafka

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// So many pings with our id that are not ours, within so long, mean a second
// process. A predecessor that is about to end sends fewer.
const (
	duplicatePings  = 3
	duplicateWindow = 10 // times the interval between pings
)

// duplicateWatch reads the health topic for pings with our id that are not ours.
// Which are ours is known by their offsets, which the broker's answers have: the
// content of two processes' pings may be the same byte for byte.
type duplicateWatch struct {
	pings
	log     *slog.Logger
	window  time.Duration
	reading *retry.Retrier

	mu      sync.Mutex
	unknown []time.Time // pings of ours whose offset is not known: on their way, or their answer was lost
	ours    []int64     // offsets of ours that have not been read yet
	strays  []stray     // pings with our id that are not known to be ours
	other   string      // the second process; empty: none
}

// stray is a ping with our id at an offset that we do not know.
type stray struct {
	offset int64
	at     time.Time
	name   string
}

func newDuplicateWatch(ctx context.Context, c *Cluster, topic string, i activation.Instance, every time.Duration) *duplicateWatch {
	return &duplicateWatch{
		// Many invokers ping: rather than wake for each, let the broker gather.
		pings:   pings{partitionReader: c.reader(ctx, topic, 0, 64<<10, 1<<20, 2*every), instance: i},
		log:     c.log,
		window:  duplicateWindow * every,
		reading: retry.New(c.log.With("topic", topic), "watching for a second process"),
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
	if err != nil {
		return err
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range received {
		w.see(p, now)
	}
	w.judge(now)
	return nil
}

// see takes note of one ping.
func (w *duplicateWatch) see(p receivedPing, now time.Time) {
	if i := slices.Index(w.ours, p.offset); i >= 0 {
		w.ours = slices.Delete(w.ours, i, i+1)
		return
	}
	w.strays = append(w.strays, stray{offset: p.offset, at: now, name: p.Instance.String()})
}

// judge logs when a second process appears and when it is gone. A ping of ours
// that may be among the strays counts as one of them.
func (w *duplicateWatch) judge(now time.Time) {
	w.strays = slices.DeleteFunc(w.strays, func(s stray) bool { return now.Sub(s.at) > w.window })
	w.unknown = slices.DeleteFunc(w.unknown, func(at time.Time) bool { return now.Sub(at) > w.window })
	w.ours = slices.DeleteFunc(w.ours, func(offset int64) bool { return offset < w.offset })
	switch {
	case w.other == "" && len(w.strays)-len(w.unknown) >= duplicatePings:
		w.other = w.strays[len(w.strays)-1].name
		w.log.Error("a second process pings with the id of this invoker: both will run the same activations",
			"invoker", w.instance.String(), "other", w.other)
	case w.other != "" && len(w.strays) == 0:
		w.other = ""
		w.log.Info("the second process with the id of this invoker is gone",
			"invoker", w.instance.String())
	}
}

// sending is called before each ping of ours, and sent when its offset is known.
func (w *duplicateWatch) sending(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unknown = append(w.unknown, now)
}

func (w *duplicateWatch) sent(offset int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unknown = w.unknown[:max(0, len(w.unknown)-1)]
	if i := slices.IndexFunc(w.strays, func(s stray) bool { return s.offset == offset }); i >= 0 {
		w.strays = slices.Delete(w.strays, i, i+1)
		return
	}
	w.ours = append(w.ours, offset)
	// Nothing is read while the watch is interrupted.
	if len(w.ours) > 1024 {
		w.ours = w.ours[1:]
	}
}

// name is the second process, empty when there is none.
func (w *duplicateWatch) name() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.other
}
