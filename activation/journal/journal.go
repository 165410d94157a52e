// Package journal stores on this host how far each activation has come: accepted, started,
// completed. After a crash Kafka delivers activations again, and the journal tells which of
// these never ran, which were running and how often, and which are completed. The journal
// also stores the messages of activations that a scheduler handed over, and results whose
// acks or records are not confirmed. An earlier version stored messages from Kafka as well;
// they are read in the same way.
//
// The metadata of the offset that is committed to Kafka repeats the completed activations,
// for a process without this disk. If both know an activation, the later state counts.
//
// Package delivery decides what follows from a state. On disk the journal is a log of
// package wal.
//
// A Journal owns one goroutine, the compactor, which deletes files that are no longer
// needed, and the two goroutines of its log.
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

// Config holds the settings of a journal. Only Dir has no default.
type Config struct {
	Dir  string
	Sync wal.Sync
	// Bytes is the approximate bound of the files. Beyond it no payload is stored; 1 GiB.
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

// syncEvery is the interval of syncs in mode wal.Batch. Kafka's offset is as old after a
// loss of power, because offsets are committed every 150 ms. Syncing is the most expensive
// part of the journal.
const syncEvery = 150 * time.Millisecond

// State says how far an activation has come.
type State uint8

// The states, in order.
const (
	Unknown State = iota
	Accepted
	Started
	Completed
	returned // its scheduler has it back. Only on disk, where it ends the entry
)

// String returns the word in logs.
func (s State) String() string {
	return [...]string{"unknown", "accepted", "started", "completed"}[s]
}

// History is the knowledge of a journal about an activation.
type History struct {
	State State
	// Crashes counts the processes that ended during a run without closing the journal. A
	// process that ended in order is not counted.
	Crashes int
	// HasMessage is set if the journal has the message.
	HasMessage bool
	// JournalOwned is set if this process works, or worked, on the journal's copy of the
	// message. Kafka's copy must be dropped.
	JournalOwned bool
	// Unacknowledged is set if the journal has the result. Its acks or record may be
	// missing.
	Unacknowledged bool
	// DuplicateID is set if the journal knows another message with this id. It stores
	// nothing about this message.
	DuplicateID bool
}

var (
	// errFull is returned by AppendMessage and KeepUnacknowledged if the journal has its
	// share of the disk.
	errFull = errors.New("journal is full")
	// errNotOpen is returned by AppendMessage and KeepUnacknowledged for an activation
	// that is completed, or was never accepted.
	errNotOpen = errors.New("it is not being worked on")
	// ErrNoMessage is returned by Message for an activation whose message is
	// not in the journal.
	ErrNoMessage = errors.New("there is no message")
	// errNoResult is returned by Result for an activation whose result is not
	// in the journal.
	errNoResult = errors.New("there is no result")
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
	live   int64               // bytes of the states and payloads
	done   map[int][]key       // completed activations by partition that Kafka may deliver again
	counts [payloadKinds]int   // of stored payloads
	bytes  [payloadKinds]int64
	space  chan struct{} // closed when the journal has space again; nil: nobody waits
	closed bool
}

// key is an activation id in half its size.
type key [16]byte

// entry is the state of an activation in memory. There may be very many.
type entry struct {
	offset    int64
	partition int32
	at        wal.Segment // has the newest state
	payloads  [payloadKinds]wal.Position
	state     State
	starts    uint8
	running   bool // started by this process
	offered   bool // another invoker may have it, and run it
	former    bool // from an earlier process, and not delivered to this one
	taken     bool // see History.JournalOwned
}

// has reports whether a payload is stored.
func (e *entry) has(kind payloadKind) bool { return e.payloads[kind].Size > 0 }

// Open reads a journal, or makes an empty journal.
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

// History returns the history of an activation.
func (j *Journal) History(id activation.ID) History {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known[keyOf(id)]
	if e == nil {
		return History{}
	}
	return e.history()
}

// Delivered is called for every decoded message before any other step. It returns the
// history from an earlier process, once, or the history of the message at the same offset.
// A message at another offset is another activation with the same id, and nothing is stored
// about it.
//
// An unknown activation is accepted from here on. That is not written: the next process
// needs no entry of an activation that is accepted and no more, and most activations start
// at once.
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
		p.State = Started // another invoker may have run it
	}
	return p
}

// Begin is called before the action can have any effect: before /run, and before an /init
// that runs code of the user. attempts counts the processes that ended during a run, as far
// as the caller knows. Begin returns when the start is written. If the disk is in trouble it
// returns false, and Health reports the trouble. Only an activation whose message the journal
// has waits for the disk, until ctx ends: without the entry the next process would run it
// again.
func (j *Journal) Begin(ctx context.Context, id activation.ID, attempts int) (written bool, err error) {
	k := keyOf(id)
	for begun := false; ; {
		r, wait := j.begin(k, attempts, begun)
		if !wait {
			if err := r.Wait(); err == nil || !j.History(id).HasMessage {
				return err == nil, nil
			}
			begun = true // and trouble came between
		}
		if err := j.log.Ready(ctx); err != nil {
			return false, fmt.Errorf("begin activation %s: %w", id, err)
		}
	}
}

// begin writes that an activation starts. If again is false, it does not repeat an entry.
// wait is true if the caller must wait for the disk first.
func (j *Journal) begin(k key, attempts int, again bool) (r wal.PendingWrite, wait bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known[k]
	if e == nil || e.running && !again || e.state == Completed {
		return r, false
	}
	if e.has(message) {
		if _, err := j.log.Err(); err != nil {
			return r, true
		}
	}
	if !e.running {
		e.running, e.state = true, Started
		e.starts = uint8(min(max(int(e.starts), attempts)+1, maxStarts))
	}
	return j.writeState(k, e), false
}

// maxStarts bounds the count of starts.
const maxStarts = 250

// Completed is called when the broker has the last ack and the database has the record,
// before the offset is committed. The payloads are forgotten. The state is known until
// ForgetBelow.
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

// ForgetBelow forgets the completed activations of a partition that Kafka will not deliver
// again: covers reports whether an offset is before the committed offset. It must be called
// now and then, or the journal grows.
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

// Ready waits until the disk works. A caller that is about to accept more work calls it
// first.
func (j *Journal) Ready(ctx context.Context) error { return j.log.Ready(ctx) }

// Close writes all entries and ends. A run that goes on now is not counted as a crash.
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

// Health is the part of the journal in /status.
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

// OK reports whether the disk works.
func (h Health) OK() bool { return h.Trouble == "" }

// Health returns a snapshot.
func (j *Journal) Health() Health {
	h := Health{
		Dir: j.cfg.Dir, Sync: j.cfg.Sync.String(),
		Bytes: j.log.Bytes(), Segments: j.log.Segments(), Damaged: j.log.Damaged(),
	}
	if since, err := j.log.Err(); err != nil {
		h.Trouble, h.Since = err.Error(), since
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	h.Known, h.Messages, h.MessageBytes, h.Unacknowledged = len(j.known), j.counts[message], j.bytes[message], j.counts[result]
	return h
}
