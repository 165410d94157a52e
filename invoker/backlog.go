package invoker

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/explain"
)

// backlog is the lane's queue with its messages, some of which are on the shelf.
// They go there when their turn is far, or when many messages are in memory, and come
// back when the lane says that their turn is near, or at the latest when it is
// there: a run waits for its message, and nobody else does. The dispatcher owns
// it.
type backlog struct {
	shelved
	jobs    map[uint64]*job // whose messages are at hand: submitted, and not started
	parker  *parker         // nil: nothing is parked
	fetcher *fetcher
	places  *places
	coming  map[uint64]*coming
	trouble string // why the last could not be parked, empty when it could
	closing bool
}

// coming is one whose message is being read back.
type coming struct {
	key   string
	order *lane.Order // the run that waits for it; nil: none yet
	box   *box
	why   string // it is refused, with this text
}

func (iv *Invoker) newBacklog(d *dispatcher) *backlog {
	b := &backlog{shelved: newShelved(), jobs: map[uint64]*job{}, places: iv.places, coming: map[uint64]*coming{}}
	if iv.ports.Shelf != nil {
		b.parker = &parker{shelf: iv.ports.Shelf, post: d.post, goWork: d.goWork}
		b.fetcher = &fetcher{iv: iv, goWork: d.goWork}
	}
	return b
}

func (b *backlog) status() *BacklogStatus {
	s := &BacklogStatus{Parked: len(b.items) + len(b.coming), Trouble: b.trouble}
	s.InMemory, s.Bytes = b.places.held()
	if b.parker == nil {
		s.Off = "there is no journal (whisk.gpu.journal): all messages stay in memory"
	}
	return s
}

// parks tells whether a job that is submitted now shall be parked, because its
// turn is far, or because of what is in memory already. Of the latter the lane is
// not told: it would ask for the message at once, for its turn may be near.
func (b *backlog) parks(j *job, l *lane.Lane) (park, far bool) {
	if b.parker == nil || j.unlisted {
		return false, false
	}
	far = l.Far(flowOf(j))
	return far || !j.place.gpu || !b.places.near(), far
}

// shelvedNews says which messages are parked, and why others are not.
type shelvedNews struct {
	jobs []*job
	err  error
}

func (e shelvedNews) apply(d *dispatcher, now time.Duration) {
	l := d.gpus
	b := l.backlog
	b.trouble = ""
	if e.err != nil {
		b.trouble = e.err.Error()
	}
	for _, j := range e.jobs {
		if b.jobs[j.item] != j || j.near {
			continue // its turn came meanwhile
		}
		if !j.take(setAside) {
			continue
		}
		delete(b.jobs, j.item)
		b.put(j)
		b.places.park(j.place)
		j.desk.old.remove(j.ticket)
		j.letGo()
		if b.closing {
			l.take(now, lane.Event{Kind: lane.Withdrawn, Item: j.item})
		}
	}
}

// bring reads a message back whose turn is near, if there is room for it.
func (b *backlog) bring(item uint64) {
	if j := b.jobs[item]; j != nil {
		j.near = true
		return
	}
	if b.closing || b.items[item] == nil || !b.places.near() {
		return
	}
	if p, ok := b.come(item, &coming{}); ok {
		b.fetcher.add(fetch{item: item, parked: p})
	}
}

// come notes that a message is being read back.
func (b *backlog) come(item uint64, c *coming) (p parked, ok bool) {
	if p, ok = b.take(item); ok {
		c.key = p.caller.key
		b.coming[item] = c
	}
	return p, ok
}

// await has a run wait for its message, and tells whether it must.
func (b *backlog) await(o lane.Order, box *box) bool {
	if b.jobs[o.Item] != nil {
		return false
	}
	if c := b.coming[o.Item]; c != nil {
		c.order, c.box = &o, box
		b.fetcher.hurry(o.Item)
	} else if p, ok := b.come(o.Item, &coming{order: &o, box: box}); ok {
		b.fetcher.now(fetch{item: o.Item, parked: p})
	}
	return true
}

// refuse answers an activation whose message is not at hand.
func (b *backlog) refuse(item uint64, reason lane.Reason, text string) {
	if c := b.coming[item]; c != nil {
		c.why = text
		return
	}
	p, ok := b.take(item)
	if !ok {
		return
	}
	if reason == lane.WasWithdrawn { // by draining: the shelf has it for the next process
		b.places.parked.Add(-1)
		return
	}
	b.fetcher.add(fetch{item: item, parked: p, why: text})
}

// broughtBack is a parked activation that was read back: a job, or the reason
// why it cannot run.
type broughtBack struct {
	item   uint64
	ticket *ticket
	job    *job
	no     *refusal
}

func (e broughtBack) apply(d *dispatcher, now time.Duration) {
	l := d.gpus
	b := l.backlog
	c := b.coming[e.item]
	delete(b.coming, e.item)
	switch {
	case c.why != "":
		d.turnAway(e.ticket, e.job, refusal{response: appError(c.why), known: true})
	case e.no != nil:
		l.take(now, c.unwanted(e.item))
		d.turnAway(e.ticket, nil, *e.no)
	case e.job.key != c.key: // another revision runs by now, in containers of its own
		l.take(now, c.unwanted(e.item))
		arrived{e.job}.apply(d, now)
	case c.order != nil:
		e.job.item = e.item
		b.jobs[e.item] = e.job
		l.start(now, *c.order, c.box)
	default:
		e.job.item, e.job.near = e.item, true
		b.jobs[e.item] = e.job
	}
}

// unwanted is what the lane hears of an item that does not run, whether it waits
// or has its token.
func (c *coming) unwanted(item uint64) lane.Event {
	if c.order == nil {
		return lane.Event{Kind: lane.Withdrawn, Item: item}
	}
	return lane.Event{Kind: lane.Left, Item: item, Unused: true, Keep: c.order.Start.Warm()}
}

// draining has what is parked stay there: the next process runs it.
type draining struct{}

func (draining) apply(d *dispatcher, now time.Duration) {
	if d.gpus == nil {
		return
	}
	d.gpus.backlog.closing = true
	for _, item := range slices.Sorted(maps.Keys(d.gpus.backlog.items)) {
		d.gpus.take(now, lane.Event{Kind: lane.Withdrawn, Item: item})
	}
}

// resume has a job go on where it was when it was parked.
func (j *job) resume(p parked) {
	j.queued, j.came, j.obstacle = p.queued, p.came, p.held
	if a := j.account; a != nil {
		a.Queued, a.Kind = j.desk.at(j.queued), j.action.Exec.Kind
		a.GPU = &explain.GPU{Own: int(p.came.ahead)}
	}
}
