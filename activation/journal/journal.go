// Package journal is the record on this host of what became of each activation:
// accepted, started, completed. After a crash it has, of the activations that Kafka
// delivers again, which never ran, which were running and how often, and which are
// completed. It also has the messages of activations that a scheduler handed over, and
// the results whose acks or records were not acknowledged. A former version stored
// messages from Kafka as well; these are read in the same way.
//
// It is the truth about these states. The metadata of the offset that is
// committed to Kafka repeats a part of it, which activations beyond the offset
// are completed or started, for a process that does not have this disk; where
// both are there, an activation is as far as the one of them has it that is further.
//
// What follows from a state is decided elsewhere. On disk the journal is a log
// of package wal; None stores nothing.
//
// A Journal owns one goroutine, the compactor, which deletes files that are no
// longer needed, and its log's two.
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
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// Config is where a journal lies. Zero values of all but Dir are defaults.
type Config struct {
	Dir  string
	Sync wal.Sync
	// Bytes bounds the files, about: beyond it no payload is stored; 1 GiB.
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

// syncEvery is how often wal.Batch syncs. After a loss of power Kafka's offset
// is as old, since offsets are committed every 150 ms; and of all that the
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
	returned // another has it: on disk only, where it ends the entry
)

// String is the word that logs use.
func (s State) String() string {
	return [...]string{"unknown", "accepted", "started", "completed"}[s]
}

// History is what a journal knows of an activation.
type History struct {
	State State
	// Crashes is how often the action was running when a process ended without
	// closing its journal. A run that a process ended in order is not counted.
	Crashes int
	// HasMessage: the journal has the message.
	HasMessage bool
	// JournalOwned: this process works, or worked, on the journal's copy of the
	// message. Kafka's copy is of no use.
	JournalOwned bool
	// Unacknowledged: the journal has the result, whose acks or record may be
	// missing.
	Unacknowledged bool
	// DuplicateID: the journal knows another message under this id, and stores
	// nothing of this one.
	DuplicateID bool
}

var (
	// ErrFull is returned by AppendMessage and KeepUnacknowledged when the journal has
	// its share of the disk.
	ErrFull = errors.New("journal is full")
	// ErrNotOpen is returned by AppendMessage and KeepUnacknowledged for an activation
	// that is completed, or was never accepted.
	ErrNotOpen = errors.New("it is not being worked on")
	// ErrNoMessage is returned by Message for an activation whose message is
	// not in the journal.
	ErrNoMessage = errors.New("there is no message")
	// ErrNoResult is returned by Result for an activation whose result is not
	// in the journal.
	ErrNoResult = errors.New("there is no result")
)

// Journal records states on disk. It is safe for use by many goroutines.
type Journal struct {
	cfg  Config
	log  *wal.Log
	wake chan struct{} // capacity 1: the compactor may have something to do
	quit chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	known  map[key]*entry
	refs   map[wal.Segment]int // states and payloads that a file is needed for
	live   int64               // bytes of these
	done   map[int][]key       // completed, by partition, and not yet covered by Kafka's offset
	counts [payloadKinds]int   // of stored payloads
	bytes  [payloadKinds]int64
	space  chan struct{} // closed when the journal is not full any more; nil: nothing waits for that
	closed bool
}

// key is an activation id in half its size.
type key [16]byte

// entry is what memory has of an activation. There may be very many.
type entry struct {
	offset    int64
	partition int32
	at        wal.Segment // of the newest state
	payloads  [payloadKinds]wal.Position
	state     State
	starts    uint8
	running   bool // started by this process
	offered   bool // another may have it, and run it
	former    bool // of a former process, and not delivered to this one
	taken     bool // the message is the journal's alone: see History.JournalOwned
}

// has reports whether a payload is stored.
func (e *entry) has(kind payloadKind) bool { return e.payloads[kind].Size > 0 }

// Open reads a journal, or makes an empty one.
func Open(cfg Config) (*Journal, error) {
	cfg = cfg.withDefaults()
	j := &Journal{
		cfg: cfg, wake: make(chan struct{}, 1), quit: make(chan struct{}),
		known: map[key]*entry{}, refs: map[wal.Segment]int{}, done: map[int][]key{},
	}
	var err error
	j.log, err = wal.Open(wal.Config{
		Dir: cfg.Dir, SegmentBytes: cfg.SegmentBytes, Sync: cfg.Sync, SyncEvery: syncEvery, Log: cfg.Log,
	}, j.replay)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	for k, e := range j.known {
		if e.state == Completed {
			j.done[int(e.partition)] = append(j.done[int(e.partition)], k)
		}
	}
	j.wg.Go(j.compact)
	j.nudge()
	return j, nil
}

// History returns what is known of an activation.
func (j *Journal) History(id activation.ID) History {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known[keyOf(id)]
	if e == nil {
		return History{}
	}
	return e.history()
}

// Delivered is to be called for every message that Kafka delivers, when it is
// decoded and before anything is done for it. It returns what is known: what a
// former process left, once, and what is known of the message at the same offset.
// A message at another offset is another activation, of which nothing is stored.
//
// An unknown activation is accepted from here on. That is not written: the next
// process needs no entry of an activation that is accepted and no more, and most
// activations start at once.
func (j *Journal) Delivered(id activation.ID, partition int, offset int64) History {
	k := keyOf(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known[k]
	switch {
	case e == nil:
		j.known[k] = &entry{state: Accepted, partition: int32(partition), offset: offset}
		return History{}
	case !e.former && (int(e.partition) != partition || e.offset != offset):
		return History{DuplicateID: true}
	}
	e.former = false
	return e.history()
}

func (e *entry) history() History {
	p := History{State: e.state, Crashes: int(e.starts), HasMessage: e.has(message), JournalOwned: e.taken, Unacknowledged: e.has(result)}
	if e.running {
		p.Crashes-- // it may yet end well
	}
	if e.offered && e.state == Accepted {
		p.State = Started // for all that is known here
	}
	return p
}

// Begin is to be called before the action can have any effect: before /run, and
// before an /init that runs code of the user. It returns when the start is
// written, or when the disk is in trouble: the run goes on then, and Health
// reports the trouble. Only an activation whose message the journal has waits for the
// disk, until ctx ends: nobody else delivers it, so that the next process would run it
// again as if it had never run.
func (j *Journal) Begin(ctx context.Context, id activation.ID) error {
	k := keyOf(id)
	for begun := false; ; {
		r, wait := j.begin(k, begun)
		if !wait {
			if err := r.Wait(); err == nil || !j.History(id).HasMessage {
				return nil
			}
			begun = true // and trouble came between
		}
		if err := j.log.Ready(ctx); err != nil {
			return fmt.Errorf("begin activation %s: %w", id, err)
		}
	}
}

// begin writes that an activation starts, unless that is written already and
// again is false. wait is true when the disk must be waited for first.
func (j *Journal) begin(k key, again bool) (r wal.Receipt, wait bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known[k]
	if e == nil || e.running && !again || e.state == Completed {
		return r, false
	}
	if e.has(message) {
		if _, err := j.log.Trouble(); err != nil {
			return r, true
		}
	}
	if !e.running {
		e.running, e.state = true, Started
		e.starts = min(e.starts+1, maxStarts)
	}
	return j.writeState(k, e), false
}

// maxStarts is as far as starts are counted.
const maxStarts = 250

// Completed is to be called when the last ack is with the broker and the record
// with the database, before the offset is committed. The payloads are forgotten;
// the state is known until ForgetBelow.
func (j *Journal) Completed(id activation.ID) {
	k := keyOf(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known[k]
	if e == nil || e.state == Completed {
		return
	}
	e.state = Completed
	e.stop()
	j.writeState(k, e)
	j.dropPayloads(e)
	j.done[int(e.partition)] = append(j.done[int(e.partition)], k)
}

// stop ends a run in order: it is not counted as a crash.
func (e *entry) stop() {
	if e.running {
		e.running = false
		e.starts--
	}
}

// ForgetBelow forgets the completed activations of a partition that Kafka will not
// deliver again: covers reports whether an offset is before the committed one.
// It must be called now and then, or the journal grows.
func (j *Journal) ForgetBelow(partition int, covers func(offset int64) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := j.done[partition][:0]
	for _, k := range j.done[partition] {
		e := j.known[k]
		if !covers(e.offset) {
			kept = append(kept, k)
			continue
		}
		j.release(e.at, stateBytes)
		delete(j.known, k)
	}
	if j.done[partition] = kept; len(kept) == 0 {
		delete(j.done, partition)
	}
	j.nudge()
}

// Ready waits until the disk takes what is written. A caller that is about to
// accept more work waits for it first.
func (j *Journal) Ready(ctx context.Context) error { return j.log.Ready(ctx) }

// Close writes what it was given and ends. A run that goes on now is not counted
// as a crash.
func (j *Journal) Close() error {
	j.mu.Lock()
	closed := j.closed
	j.closed = true
	for k, e := range j.known {
		if !closed && e.running {
			e.stop()
			j.writeState(k, e)
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

// Health is a journal's part of /status.
type Health struct {
	Dir            string    `json:"dir"`
	Sync           string    `json:"fsync"`
	Known          int       `json:"activations"`
	Messages       int       `json:"messages"`
	MessageBytes   int64     `json:"messageBytes"`
	Unacknowledged int       `json:"unacknowledged"` // results
	Bytes          int64     `json:"bytes"`
	Segments       int       `json:"segments"`
	Damaged        int64     `json:"damagedBytes"` // found at the start
	Trouble        string    `json:"trouble,omitzero"`
	Since          time.Time `json:"since,omitzero"`
}

// OK reports whether the disk takes what is written.
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
	h.Known, h.Messages, h.MessageBytes, h.Unacknowledged = len(j.known), j.counts[message], j.bytes[message], j.counts[result]
	return h
}

// None stores nothing. With it a crash has every activation run again that was
// not completed.
type None struct{}

// Begin does nothing.
func (None) Begin(context.Context, activation.ID) error { return nil }

// Completed does nothing.
func (None) Completed(activation.ID) {}

// KeepUnacknowledged does nothing.
func (None) KeepUnacknowledged(ids []activation.ID, _ [][]byte) []error {
	return make([]error, len(ids))
}
