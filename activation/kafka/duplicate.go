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

// So many pings with our id that are not ours, within so long, mean a second
// process. A predecessor that is about to end sends fewer.
const (
	duplicatePings  = 3
	duplicateWindow = 10 // times the interval between pings
)

// duplicateWatch reads the health topic for pings with our id that are not ours.
// Which are ours is known by their offsets, which the broker's answers have: the content of two processes' pings may be the same byte for byte.
type duplicateWatch struct {
	reader   *partitionReader
	log      *slog.Logger
	instance activation.Instance
	window   time.Duration
	reading  *retry.Retrier
	located  bool // the reader knows where to read

	mu      sync.Mutex
	pending bool        // a ping of ours is on its way, its offset not known
	lost    []time.Time // pings of ours whose offset never will be known
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
	// Many invokers ping: rather than wake for each, let the broker gather.
	return &duplicateWatch{
		reader:   c.reader(ctx, topic, 0, 64<<10, 1<<20, 2*every),
		log:      c.log,
		instance: i,
		window:   duplicateWindow * every,
		reading:  retry.New(c.log.With("topic", topic), "watching for a second process"),
	}
}

// run reads the topic from its end until ctx ends.
func (w *duplicateWatch) run(ctx context.Context) {
	defer w.reader.close()
	for ctx.Err() == nil {
		if err := w.poll(ctx); err != nil {
			w.reading.Wait(ctx, err)
			continue
		}
		w.reading.Succeeded()
	}
}

func (w *duplicateWatch) poll(ctx context.Context) error {
	if _, err := w.reader.connect(ctx, 0); err != nil {
		return err
	}
	if !w.located {
		end, err := w.reader.find(ctx, wire.LastOffset)
		if err != nil {
			return err
		}
		w.reader.offset, w.located = end, true
	}
	records, err := w.reader.fetch(ctx)
	if err != nil {
		w.located = code(err) == 0
		return err
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range records {
		w.see(r, now)
	}
	w.judge(now)
	return nil
}

// see takes note of one ping.
func (w *duplicateWatch) see(r record, now time.Time) {
	ping, err := activation.DecodePing(r.value)
	if err != nil || ping.Instance.ID != w.instance.ID {
		return
	}
	if i := slices.Index(w.ours, r.offset); i >= 0 {
		w.ours = slices.Delete(w.ours, i, i+1)
		return
	}
	w.strays = append(w.strays, stray{offset: r.offset, at: now, name: ping.Instance.String()})
}

// judge logs when a second process appears and when it is gone. A ping of ours
// that may be among the strays counts as one of them.
func (w *duplicateWatch) judge(now time.Time) {
	w.strays = slices.DeleteFunc(w.strays, func(s stray) bool { return now.Sub(s.at) > w.window })
	w.lost = slices.DeleteFunc(w.lost, func(at time.Time) bool { return now.Sub(at) > w.window })
	w.ours = slices.DeleteFunc(w.ours, func(offset int64) bool { return offset < w.reader.offset })
	n := len(w.strays) - len(w.lost)
	if w.pending {
		n--
	}
	switch {
	case w.other == "" && n >= duplicatePings:
		w.other = w.strays[len(w.strays)-1].name
		w.log.Error("a second process pings with the id of this invoker: both will run the same activations",
			"invoker", w.instance.String(), "other", w.other)
	case w.other != "" && len(w.strays) == 0:
		w.other = ""
		w.log.Info("the second process with the id of this invoker is gone",
			"invoker", w.instance.String())
	}
}

// sending, sent and missed are called by the pinger for each ping: before it goes
// out, and then as it ended.
func (w *duplicateWatch) sending() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = true
}

func (w *duplicateWatch) sent(offset int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = false
	for i := range w.strays {
		if w.strays[i].offset == offset {
			w.strays = slices.Delete(w.strays, i, i+1)
			return
		}
	}
	w.ours = append(w.ours, offset)
	// Nothing is read while the watch is interrupted.
	if len(w.ours) > 1024 {
		w.ours = w.ours[1:]
	}
}

func (w *duplicateWatch) missed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = false
	w.lost = append(w.lost, time.Now())
}

// name is the second process, empty when there is none.
func (w *duplicateWatch) name() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.other
}
