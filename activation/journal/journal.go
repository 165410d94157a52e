// Package journal is the account of what became of each activation: accepted,
// parked with its message, started, completed. What was written there before a
// crash tells afterwards which of the activations that Kafka delivers again
// never ran, which were running and how often, and which only need to be
// passed over; and it has the messages of those that Kafka has forgotten, and
// what those ended with whose end could not be told.
//
// It has no opinion on what to do with that knowledge. On disk it is a log of
// package wal; None keeps nothing.
//
// A Journal owns one goroutine, the keeper, which deletes files that no longer
// matter, and its log's two.
package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/slab"
	"github.com/gpuwhisk/gpuwhisk/activation/wal"
)

// Config says where a journal lies. Zero values of all but Dir are defaults.
type Config struct {
	Dir  string
	Sync wal.Sync
	// Bytes bounds the files, about: beyond it nothing is parked; 1 GiB.
	Bytes int64
	// SegmentBytes is the size of a file; 8 MiB.
	SegmentBytes int
	Log          *slog.Logger // nil: nothing is logged
}

func (c Config) withDefaults() Config {
	c.Bytes = cmp.Or(c.Bytes, 1<<30)
	c.SegmentBytes = cmp.Or(c.SegmentBytes, 8<<20)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// syncEvery is how often wal.Batch syncs. Kafka's account is as old after a loss
// of power, since positions are committed every 150 ms; and of all that the
// journal does, syncing costs most.
const syncEvery = 150 * time.Millisecond

// State is how far an activation has come.
type State uint8

// The states, in order.
const (
	Unknown State = iota
	Accepted
	Started
	Completed
)

// String is the word that logs use.
func (s State) String() string {
	return [...]string{"unknown", "accepted", "started", "completed"}[s]
}

// Past is what a journal knows of an activation.
type Past struct {
	State State
	// Crashes is how often the action was running when a process ended that
	// did not close its journal. It says Started also where that is zero.
	Crashes int
	// Parked: the journal has the message.
	Parked bool
	// Taken: what is being worked on, or was, is the journal's copy of the
	// message. Kafka's is of no use.
	Taken bool
	// Owed: the journal has what it ended with, which not everybody was told.
	Owed bool
	// Other: the journal knows another message under this id, and keeps nothing
	// of this one.
	Other bool
}

var (
	// ErrFull is what Park and Owe answer when the journal has its share of the disk.
	ErrFull = errors.New("journal is full")
	// ErrNotOpen is what Park and Owe answer for an activation that is completed,
	// or was never accepted.
	ErrNotOpen = errors.New("it is not being worked on")
	// ErrNotParked is what Message answers for an activation whose message was
	// not parked.
	ErrNotParked = errors.New("message is not parked")
	// ErrNotOwed is what Owed answers where nothing is owed.
	ErrNotOwed = errors.New("nothing is owed")
)

// Journal keeps the account on disk. It is safe for use by many goroutines.
type Journal struct {
	cfg  Config
	log  *wal.Log
	wake chan struct{} // capacity 1: the keeper may have something to do
	quit chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	scratch [stepBytes]byte // for the entry that is being written
	known   slab.Table[key, *entry]
	slab    slab.Slab[entry]
	refs    map[wal.Segment]int        // entries and parked messages that a file is needed for
	live    int64                      // bytes of what is needed
	done    map[int][]key              // completed, by partition, not yet covered by Kafka
	owed    slab.Table[key, wal.Place] // what entries ended with that owe it
	parked  int
	bodies  int64 // bytes of what is parked
	closed  bool
}

// key is an activation id in half its size.
type key [16]byte

// entry is what memory holds of an activation.
type entry struct {
	offset    int64
	partition int32
	at        wal.Segment // of the newest step
	message   wal.Place   // size 0: not parked
	state     State
	starts    uint8
	now       bool // started in this life
	former    bool // of a former process, and not delivered in this life
	owes      bool // owed has what it ended with
	taken     bool // the message is the journal's alone: Take, or Park, gave it that
}

// Open reads a journal, or makes an empty one.
func Open(cfg Config) (*Journal, error) {
	cfg = cfg.withDefaults()
	j := &Journal{
		cfg: cfg, wake: make(chan struct{}, 1), quit: make(chan struct{}),
		refs: map[wal.Segment]int{}, done: map[int][]key{},
	}
	var err error
	j.log, err = wal.Open(wal.Config{
		Dir: cfg.Dir, SegmentBytes: cfg.SegmentBytes, Sync: cfg.Sync, SyncEvery: syncEvery, Log: cfg.Log,
	}, j.replay)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	for k, e := range j.known.All() {
		if e.state == Completed {
			j.done[int(e.partition)] = append(j.done[int(e.partition)], k)
		}
	}
	j.wg.Go(j.keep)
	j.nudge()
	return j, nil
}

// Past tells what is known of an activation.
func (j *Journal) Past(id activation.ID) Past {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known.Get(keyOf(id))
	if e == nil {
		return Past{}
	}
	return e.past()
}

// Delivered comes for every message that Kafka delivers, after it was decoded and
// before anything is done for it. Partition and offset are its place on the
// invoker's topic. It tells what is known: what a former process left, once, and
// what is known of the very same message. Another message with the same id is
// another activation, of which nothing is kept. What was unknown is accepted from
// here on, but nothing is written: of what is accepted and no more, the next life
// need not know, and most activations start at once.
func (j *Journal) Delivered(id activation.ID, partition int, offset int64) Past {
	k := keyOf(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known.Get(k)
	switch {
	case e == nil:
		e = j.slab.Take()
		e.state, e.partition, e.offset = Accepted, int32(partition), offset
		j.known.Set(k, e)
		return Past{}
	case !e.former && (int(e.partition) != partition || e.offset != offset):
		return Past{Other: true}
	}
	e.former = false
	return e.past()
}

func (e *entry) past() Past {
	p := Past{State: e.state, Crashes: int(e.starts), Parked: e.message.Size > 0, Taken: e.taken, Owed: e.owes}
	if e.now {
		p.Crashes-- // it may yet end well
	}
	return p
}

// Begin comes before the action can have any effect: before /run, and before
// an /init that runs code of the user. It returns when that is kept, or when
// the disk does not take it: then what runs goes on, and Health tells. Only an
// activation that is parked waits for the disk, until ctx ends: nobody but the
// journal knows of it, so it would be handed out again as if it had never run.
func (j *Journal) Begin(ctx context.Context, id activation.ID) error {
	k := keyOf(id)
	for begun := false; ; {
		r, waits := j.begin(k, begun)
		if !waits {
			err := r.Kept()
			if waits = err != nil && j.Past(id).Parked; !waits {
				return nil
			}
			begun = true // and trouble came between
		}
		if err := j.log.Well(ctx); err != nil {
			return fmt.Errorf("begin parked activation %s: %w", id, err)
		}
	}
}

// begin writes that an activation begins, where that is news, or is to be
// written again. It tells whether the disk must be waited for first.
func (j *Journal) begin(k key, again bool) (r wal.Receipt, waits bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known.Get(k)
	if e == nil || e.now && !again || e.state == Completed {
		return r, false
	}
	if e.message.Size > 0 {
		if _, err := j.log.Trouble(); err != nil {
			return r, true
		}
	}
	if !e.now {
		e.now, e.state = true, Started
		e.starts = min(e.starts+1, maxStarts)
	}
	return j.step(k, e), false
}

// maxStarts is as far as starts are counted.
const maxStarts = 250

// Completed comes when the last ack is with the broker and the record with the
// database, before the offset may be committed. A parked message is forgotten;
// that the activation is completed is known until Covered.
func (j *Journal) Completed(id activation.ID) {
	k := keyOf(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known.Get(k)
	if e == nil || e.state == Completed {
		return
	}
	if e.state = Completed; e.now {
		e.now = false
		e.starts--
	}
	j.step(k, e)
	j.dropMessage(e)
	j.dropEnding(k, e)
	j.done[int(e.partition)] = append(j.done[int(e.partition)], k)
}

// Covered tells which offsets of a partition Kafka will not deliver again,
// because a position says so that is committed. What is completed there is
// forgotten. It must be called now and then, or the journal grows.
func (j *Journal) Covered(partition int, covers func(offset int64) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := j.done[partition][:0]
	for _, k := range j.done[partition] {
		if e := j.known.Get(k); covers(e.offset) {
			j.release(e.at, stepBytes) // Completed was written
			j.slab.Give(e)
			if j.known.Delete(k) {
				j.slab = slab.Slab[entry]{}
			}
			continue
		}
		kept = append(kept, k)
	}
	if len(kept) == 0 {
		delete(j.done, partition)
	} else {
		j.done[partition] = kept
	}
	j.nudge()
}

// Ready waits until the disk takes what is written. Whoever takes in more work
// waits for it first.
func (j *Journal) Ready(ctx context.Context) error { return j.log.Well(ctx) }

// Close writes what was told and ends. What runs now is not counted as running
// when a process crashed.
func (j *Journal) Close() error {
	j.mu.Lock()
	closed := j.closed
	j.closed = true
	for k, e := range j.known.All() {
		if !closed && e.now {
			e.now = false
			e.starts--
			j.step(k, e)
		}
	}
	j.mu.Unlock()
	if closed {
		return nil
	}
	close(j.quit)
	j.wg.Wait()
	return j.log.Close()
}

// Health is what /status shows of a journal.
type Health struct {
	Dir      string    `json:"dir"`
	Sync     string    `json:"fsync"`
	Known    int       `json:"activations"` // that something is known of
	Parked   int       `json:"parked"`      // messages, of what runs too
	Bodies   int64     `json:"parkedBytes"` // of them
	Owed     int       `json:"owed"`        // answered, and not everybody has heard it
	Bytes    int64     `json:"bytes"`
	Segments int       `json:"segments"`
	Damaged  int64     `json:"damagedBytes"` // found at the start
	Trouble  string    `json:"trouble,omitzero"`
	Since    time.Time `json:"since,omitzero"`
}

// OK tells whether the disk takes what is written.
func (h Health) OK() bool { return h.Trouble == "" }

// Health returns a snapshot.
func (j *Journal) Health() Health {
	h := Health{
		Dir: j.cfg.Dir, Sync: j.cfg.Sync.String(),
		Bytes: j.log.Bytes(), Segments: j.log.Segments(), Damaged: j.log.Damaged(),
	}
	if since, err := j.log.Trouble(); err != nil {
		h.Trouble, h.Since = err.Error(), since
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	h.Known, h.Parked, h.Bodies, h.Owed = j.known.Len(), j.parked, j.bodies, j.owed.Len()
	return h
}
