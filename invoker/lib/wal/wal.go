// Package wal is a write-ahead log: entries on disk in the order of their appends, in
// segment files. The owner drops segments that it no longer needs. The log does not
// interpret entries.
//
// One writer goroutine writes all entries that were appended since its last write, so
// that concurrent owners share a write. A written entry survives the end of the process.
// Config.Sync decides whether it survives a loss of power.
//
// A truncated or damaged file is read as far as possible: every entry has a checksum, a
// torn end is cut off, and damage in the middle is logged, skipped and counted. This is
// the reason for an own implementation: the available log libraries and databases refuse
// such a file or lose the rest of it.
//
// Err reports a full or slow disk. Entries that are appended meanwhile are written
// when the disk works again, and no caller waits.
//
// A Log owns two goroutines from Open to Close: the writer and the syncer.
package wal

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Sync selects when entries are synced, so that they survive a loss of power.
type Sync int

// When entries are synced.
const (
	SyncBatch Sync = iota // every Config.SyncEvery; callers do not wait for it
	SyncEach              // before PendingWrite.Wait returns
	SyncNone              // when the operating system decides
)

// Syncs returns the configuration's words for the values of Sync, in order.
func Syncs() []string { return []string{"batch", "each", "none"} }

// String returns the word of s.
func (s Sync) String() string { return Syncs()[s] }

// ParseSync parses a word of Syncs.
func ParseSync(word string) (Sync, error) {
	for i, w := range Syncs() {
		if w == word {
			return Sync(i), nil
		}
	}
	return 0, fmt.Errorf("sync %q: want batch, each or none", word)
}

// Config sets the directory and limits of a log. Zero values of all fields except Dir
// mean the defaults.
type Config struct {
	Dir          string
	SegmentBytes int           // of a file, approximately; default 8 MiB
	Sync         Sync          // default SyncBatch
	SyncEvery    time.Duration // with SyncBatch; default 20 ms
	Timeout      time.Duration // of a write or sync, after which Err reports it; default 1 s
	Retry        time.Duration // pause before a failed write or sync is repeated; default 250 ms
	Log          *slog.Logger  // nil: discard
}

func (c Config) withDefaults() Config {
	c.SegmentBytes = cmp.Or(c.SegmentBytes, 8<<20)
	c.SyncEvery = cmp.Or(c.SyncEvery, 20*time.Millisecond)
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	c.Retry = cmp.Or(c.Retry, 250*time.Millisecond)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Segment numbers a file of a log; a later file has a higher number.
type Segment uint32

// Position is the place of an entry.
type Position struct {
	Segment Segment
	Offset  uint32 // of the frame in the file
	Size    uint32 // of the payload
}

// End returns the offset after the entry.
func (p Position) End() int64 { return int64(p.Offset) + headerBytes + int64(p.Size) }

var (
	// errClosed means that the log is closed.
	errClosed = errors.New("log is closed")
	// ErrDamaged means that Read found a damaged entry.
	ErrDamaged = errors.New("entry is damaged")
	// ErrInUse means that another process has the log open.
	ErrInUse = errors.New("another process uses it")
)

// Log is an open log. It is safe for concurrent use.
type Log struct {
	cfg     Config
	lock    *os.File
	wake    chan struct{} // capacity 1: there are entries to write
	unsync  chan struct{} // capacity 1: there are writes to sync
	quit    chan struct{} // closed by Close
	wg      sync.WaitGroup
	syncing sync.Mutex // one sync at a time
	damaged int64

	mu       sync.Mutex
	closed   bool
	head     Segment // the file that is appended to
	headSize int
	files    map[Segment]*segment
	total    int64
	pending  *batch // not yet taken by the writer
	newest   *batch // the last pending batch
	disk     [2]operation
	changed  chan struct{} // closed and replaced when Err changes
}

// segment is one file.
type segment struct {
	name    string
	salt    uint32
	size    int64
	dirty   bool // written but not synced
	dropped bool
}

// Open opens a log and calls each for every existing entry, in the order of the appends.
// New entries go to a new file. each may be nil, and must not keep the payload.
func Open(cfg Config, each func(Position, []byte)) (*Log, error) {
	cfg = cfg.withDefaults()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of log: %w", err)
	}
	lock, err := takeLock(cfg.Dir)
	if err != nil {
		return nil, err
	}
	l := &Log{
		cfg: cfg, lock: lock, files: map[Segment]*segment{},
		wake: make(chan struct{}, 1), unsync: make(chan struct{}, 1), quit: make(chan struct{}), changed: make(chan struct{}),
	}
	if each == nil {
		each = func(Position, []byte) {}
	}
	if err := l.load(each); err != nil {
		_ = lock.Close()
		return nil, err
	}
	l.roll()
	l.wg.Go(l.write)
	if cfg.Sync == SyncBatch {
		l.wg.Go(l.syncEvery)
	}
	return l, nil
}

// takeLock locks a directory against other processes. The system releases the lock when
// the process ends, for whatever reason.
func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock log: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, fmt.Errorf("lock log %s: %w", dir, err)
	}
	return f, nil
}

// roll begins a new file. If the goroutines are running, the caller must hold mu.
func (l *Log) roll() {
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // rand.Read never fails
	l.head++
	l.headSize = 0
	s := &segment{salt: binary.LittleEndian.Uint32(salt[:])}
	s.name = fileName(l.head, s.salt)
	l.files[l.head] = s
}

// Head returns the file that is appended to.
func (l *Log) Head() Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Oldest returns the oldest file.
func (l *Log) Oldest() Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.head
	for n := range l.files {
		oldest = min(oldest, n)
	}
	return oldest
}

// Roll begins a new file, unless the current one is empty, and returns the number of the
// file.
func (l *Log) Roll() Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.headSize > 0 {
		l.roll()
	}
	return l.head
}

// Bytes returns the size of all files.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Segments returns the number of files, including the current one.
func (l *Log) Segments() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.files)
}

// Damaged returns how many bytes of the files were unreadable at Open, without torn
// ends.
func (l *Log) Damaged() int64 { return l.damaged }

// Drop deletes a file. Its entries must not be needed any more, and must not supersede
// entries in an older file. One goroutine must drop the files in order. A file that
// cannot be deleted stays.
func (l *Log) Drop(n Segment) error {
	l.mu.Lock()
	s := l.files[n]
	if s == nil || n == l.head {
		l.mu.Unlock()
		return nil
	}
	s.dropped = true
	l.mu.Unlock()
	err := os.Remove(filepath.Join(l.cfg.Dir, s.name))
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		s.dropped = false
		return fmt.Errorf("drop segment of log: %w", err)
	}
	delete(l.files, n)
	l.total -= s.size
	return nil
}

// Close writes the pending entries, unless the disk fails, and ends the goroutines.
func (l *Log) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	close(l.quit)
	l.wg.Wait()
	return errors.Join(l.Sync(), l.lock.Close())
}
