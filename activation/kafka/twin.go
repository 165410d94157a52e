package kafka

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// So many pings with our id that are not ours, within so long, mean a second
// process. A predecessor that is about to end sends fewer.
const (
	twinPings  = 3
	twinWindow = 10 // times the interval between pings
)

// twin watches the health topic for pings with our id that are not ours. Which
// are ours is known by their offsets, which the broker tells when it takes
// them: the words of two processes may be the same byte for byte.
type twin struct {
	tail     *tail
	instance activation.Instance
	window   time.Duration
	outage   *outage.Outage

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

func newTwin(c *Cluster, topic string, i activation.Instance, every time.Duration) *twin {
	// Many invokers ping: rather than wake for each, let the broker gather.
	return &twin{
		tail:     newTail(c, topic, 0, 64<<10, 1<<20, 2*every),
		instance: i,
		window:   twinWindow * every,
		outage:   outage.New(c.log.With("topic", topic), "watching for a second process"),
	}
}

// run reads the topic from its end until ctx ends.
func (t *twin) run(ctx context.Context) {
	located := false
	for ctx.Err() == nil {
		err := t.poll(ctx, &located)
		if err != nil {
			t.tail.drop()
			t.outage.Failed(ctx, err)
			continue
		}
		t.outage.Over()
	}
	t.tail.drop()
}

func (t *twin) poll(ctx context.Context, located *bool) error {
	if _, err := t.tail.connect(ctx); err != nil {
		return err
	}
	if !*located {
		end, err := t.tail.edge(logEnd)
		if err != nil {
			return err
		}
		t.tail.offset = end
		*located = true
	}
	records, err := t.tail.fetch()
	if err != nil {
		*located = code(err) == 0
		return err
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range records {
		t.see(r, now)
	}
	t.judge(now)
	return nil
}

// see takes note of one ping.
func (t *twin) see(r record, now time.Time) {
	ping, err := activation.DecodePing(r.value)
	if err != nil || ping.Instance.ID != t.instance.ID {
		return
	}
	if i := slices.Index(t.ours, r.offset); i >= 0 {
		t.ours = slices.Delete(t.ours, i, i+1)
		return
	}
	t.strays = append(t.strays, stray{offset: r.offset, at: now, name: ping.Instance.String()})
}

// judge says when a second process appears and when it is gone. A ping of ours
// that may be among the strays counts as one of them.
func (t *twin) judge(now time.Time) {
	t.strays = slices.DeleteFunc(t.strays, func(s stray) bool { return now.Sub(s.at) > t.window })
	t.lost = slices.DeleteFunc(t.lost, func(at time.Time) bool { return now.Sub(at) > t.window })
	t.ours = slices.DeleteFunc(t.ours, func(offset int64) bool { return offset < t.tail.offset })
	n := len(t.strays) - len(t.lost)
	if t.pending {
		n--
	}
	switch {
	case t.other == "" && n >= twinPings:
		t.other = t.strays[len(t.strays)-1].name
		t.tail.cluster.log.Error("a second process pings with the id of this invoker: both will run the same activations",
			"invoker", t.instance.String(), "other", t.other)
	case t.other != "" && len(t.strays) == 0:
		t.other = ""
		t.tail.cluster.log.Info("the second process with the id of this invoker is gone",
			"invoker", t.instance.String())
	}
}

// sending, sent and missed are told by the pinger of each ping: before it goes
// out, and then what became of it.
func (t *twin) sending() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = true
}

func (t *twin) sent(offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = false
	for i := range t.strays {
		if t.strays[i].offset == offset {
			t.strays = slices.Delete(t.strays, i, i+1)
			return
		}
	}
	t.ours = append(t.ours, offset)
	// Nobody reads while the watch is interrupted.
	if len(t.ours) > 1024 {
		t.ours = t.ours[1:]
	}
}

func (t *twin) missed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = false
	t.lost = append(t.lost, time.Now())
}

// name is the second process, empty when there is none.
func (t *twin) name() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.other
}
