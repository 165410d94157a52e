// Package wal is a write-ahead log: entries on disk, in the order in which they
// are appended, in segment files of which the owner drops those that are no
// longer needed. It knows nothing of what the entries mean.
//
// One writer goroutine writes all entries that were appended since its last
// write, so that concurrent owners share a write. A written entry survives the
// end of the process, and a loss of power when Config.Sync has it.
//
// A file that was cut short or damaged is read as far as it is whole: every
// entry has a check sum, a torn end is cut off, and damage in the middle is
// logged, skipped and counted. That is why this is no library's log or
// database: those at hand refuse such a file or lose the rest of it.
//
// A disk that is full or slow is reported by Trouble. Entries that were
// appended meanwhile are written when the disk takes them again, and no caller
// waits for that.
//
// A Log owns two goroutines, the writer and the syncer, from Open to Close.
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

// Sync is when entries are made to survive a loss of power.
type Sync int

// When entries are synced.
const (
	Batch Sync = iota // every Config.SyncEvery, without a caller that waits for it
	Each              // before Receipt.Wait returns
	None              // when the operating system sees fit
)

// Syncs are the configuration's words for Sync, in its order.
func Syncs() []string { return []string{"batch", "each", "none"} }

// String gives the word.
func (s Sync) String() string { return Syncs()[s] }

// ParseSync reads a word of Syncs.
func ParseSync(word string) (Sync, error) {
	for i, w := range Syncs() {
		if w == word {
			return Sync(i), nil
		}
	}
	return 0, fmt.Errorf("sync %q: want batch, each or none", word)
}

// Config is where a log lies. Zero values of all but Dir are defaults.
type Config struct {
	Dir          string
	SegmentBytes int           // of a file, about; 8 MiB
	Sync         Sync          // Batch
	SyncEvery    time.Duration // with Batch; 20 ms
	Timeout      time.Duration // of a write or a sync, after which Trouble reports it; 1 s
	Retry        time.Duration // pause before a failed write or sync is repeated; 250 ms
	Log          *slog.Logger  // nil: nothing is logged
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

// Position is where an entry lies.
type Position struct {
	Segment Segment
	Offset  uint32 // of the frame in the file
	Size    uint32 // of the payload
}

// End is the offset after the entry.
func (p Position) End() int64 { return int64(p.Offset) + headerBytes + int64(p.Size) }

var (
	// ErrClosed is returned by a closed log.
	ErrClosed = errors.New("log is closed")
	// ErrDamaged is returned by Read for an entry that is not whole.
	ErrDamaged = errors.New("entry is damaged")
	// ErrInUse means that another process has the log open.
	ErrInUse = errors.New("another process uses it")
)

// Log is an open log. It is safe for use by many goroutines.
type Log struct {
	cfg     Config
	lock    *os.File
	wake    chan struct{} // capacity 1: there is something to write
	unsync  chan struct{} // capacity 1: there is something to sync
	quit    chan struct{} // closed by Close
	wg      sync.WaitGroup
	syncing sync.Mutex // one sync at a time
	damaged int64

	mu       sync.Mutex
	closed   bool
	head     Segment // appended to
	headSize int
	files    map[Segment]*segment
	total    int64
	pending  *batch // not yet taken by the writer
	newest   *batch // the last that was pending
	disk     [2]operation
	changed  chan struct{} // closed and replaced when Trouble changes
}

// segment is one file.
type segment struct {
	name    string
	salt    uint32
	size    int64
	dirty   bool // written and not synced
	dropped bool
}

// Open reads a log, calls each with every entry in the order in which they were
// appended, and begins a new file for what is appended next. each may be nil,
// and must not keep the payload.
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
	if cfg.Sync == Batch {
		l.wg.Go(l.syncEvery)
	}
	return l, nil
}

// takeLock locks a directory against other processes. The lock ends with the
// process, however that ends.
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

// roll begins a new file. The caller holds mu, once the goroutines run.
func (l *Log) roll() {
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails
	l.head++
	l.headSize = 0
	s := &segment{salt: binary.LittleEndian.Uint32(salt[:])}
	s.name = fileName(l.head, s.salt)
	l.files[l.head] = s
}

// Head is the file that is appended to.
func (l *Log) Head() Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Oldest is the oldest file there is.
func (l *Log) Oldest() Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := l.head
	for n := range l.files {
		oldest = min(oldest, n)
	}
	return oldest
}

// Roll begins a new file, unless the present one is empty, and returns its
// number.
func (l *Log) Roll() Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.headSize > 0 {
		l.roll()
	}
	return l.head
}

// Bytes is the size of all files.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Segments is how many files there are, the one being written included.
func (l *Log) Segments() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.files)
}

// Damaged is how many bytes of the files could not be read at Open, torn ends
// aside.
func (l *Log) Damaged() int64 { return l.damaged }

// Drop deletes a file. Its entries must not be needed any more, and must not
// supersede any in an older file. Files are to be dropped in order, by one
// goroutine. A file that cannot be deleted, as of a disk that is away, stays.
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

// Close writes what was appended, unless the disk does not take it, and ends.
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
