// Package wal keeps entries on disk, in the order in which they are appended:
// a log in segment files, whose oldest files its user drops when nothing in
// them matters any more. It knows nothing of what the entries say.
//
// An appended entry is with the operating system when it was copied into memory
// that is shared with the file (window), or as soon as the writer has had its
// turn, of which many goroutines share one. From then on it survives the end of
// this process; when it survives a loss of power is Config.Sync's.
//
// A file that was cut short or damaged is read as far as it is whole: every
// entry has a check sum, a torn end is cut off, and what is damaged in the
// middle is named, skipped and counted. That is why this is no library's log
// or database: those at hand refuse or lose the rest of such a file.
//
// A disk that is full, or slow, is Trouble. Nothing that was appended is given
// up for it: it is written when the disk takes it again. Nobody is made to wait
// for that.
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

// Sync says when entries are made to survive a loss of power.
type Sync int

// When entries are synced.
const (
	Batch Sync = iota // every Config.SyncEvery, all that came since; nobody waits for it
	Each              // before Kept returns; those who wait share one
	None              // when the operating system sees fit
)

// Syncs are the words for Sync, in its order.
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

// Config says where a log lies. Zero values of all but Dir are defaults.
type Config struct {
	Dir          string
	SegmentBytes int           // of a file, about; 8 MiB
	Sync         Sync          // Batch
	SyncEvery    time.Duration // with Batch; 20 ms
	// Patience is how long a write or a sync may take until that is trouble;
	// 1 s.
	Patience time.Duration
	// Retry is the pause before a write that failed is tried again; 250 ms.
	Retry time.Duration
	Log   *slog.Logger // nil: nothing is logged
}

func (c Config) withDefaults() Config {
	c.SegmentBytes = cmp.Or(c.SegmentBytes, 8<<20)
	c.SyncEvery = cmp.Or(c.SyncEvery, 20*time.Millisecond)
	c.Patience = cmp.Or(c.Patience, time.Second)
	c.Retry = cmp.Or(c.Retry, 250*time.Millisecond)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Segment numbers a file of a log; a later one has a higher number.
type Segment uint32

// Place is where an entry lies.
type Place struct {
	Segment Segment
	At      uint32 // of the frame in the file
	Size    uint32 // of the payload
}

var (
	// ErrClosed is what a closed log answers.
	ErrClosed = errors.New("log is closed")
	// ErrDamaged is what Read answers for an entry that is not whole.
	ErrDamaged = errors.New("entry is damaged")
	// ErrInUse means that another process has the log open.
	ErrInUse = errors.New("another process uses it")
)

// Log is an open log. It is safe for use by many goroutines.
type Log struct {
	cfg   Config
	lock  *os.File
	wake  chan struct{} // capacity 1: there is something to write
	stale chan struct{} // capacity 1: there is something to sync
	quit  chan struct{} // closed by Close
	wg    sync.WaitGroup

	dropping sync.Mutex
	syncs    sync.Mutex
	asker    *asker // of who holds syncs
	unasked  bool   // the system takes no requests

	mu       sync.Mutex
	closed   bool
	head     Segment // appended to
	headSize int
	files    map[Segment]*segment
	total    int64
	next     *batch // not yet taken by the writer
	newest   *batch // of all that the writer was given
	spare    []byte // a buffer that was written, for the next batch
	unsynced []*os.File
	left     []*os.File // written to the end; the syncer closes them
	window   *window    // entries are copied there; nil: they wait for the writer
	tasks    [2]task
	changed  chan struct{} // closed and replaced when trouble comes or goes
	damaged  int64

	shutWindows []*window // not used any more
}

// segment is one file.
type segment struct {
	name string
	salt uint32
	size int64
}

// Open reads what a log holds, calls each with every entry in the order in
// which they were appended, and lets go on appending in a new file. The payload
// is each's for the time of the call. each may be nil.
func Open(cfg Config, each func(Place, []byte)) (*Log, error) {
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
		wake: make(chan struct{}, 1), stale: make(chan struct{}, 1), quit: make(chan struct{}), changed: make(chan struct{}),
	}
	if each == nil {
		each = func(Place, []byte) {}
	}
	if err := l.load(each); err != nil {
		_ = lock.Close()
		return nil, err
	}
	l.mu.Lock()
	l.roll()
	l.mu.Unlock()
	l.wg.Go(l.write)
	if cfg.Sync == Batch {
		l.wg.Go(l.keepSynced)
	}
	return l, nil
}

// takeLock holds a directory against other processes. The lock ends with the
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

// roll begins a new file. The caller holds the lock.
func (l *Log) roll() {
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails
	l.shut()
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

// Roll has what follows appended to a new file, if the present one has
// anything in it, and returns the number of that.
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

// Drop deletes a file. The entries in it must not matter any more, and none in
// an older file that they supersede.
func (l *Log) Drop(n Segment) error {
	l.mu.Lock()
	s := l.files[n]
	if s == nil || n == l.head {
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	// One after the other, in the order asked for, also where two ask.
	l.dropping.Lock()
	defer l.dropping.Unlock()
	l.mu.Lock()
	if l.files[n] == nil {
		l.mu.Unlock()
		return nil
	}
	delete(l.files, n)
	l.total -= s.size
	l.mu.Unlock()
	if err := os.Remove(filepath.Join(l.cfg.Dir, s.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("drop segment of log: %w", err)
	}
	return nil
}

// Close writes what was appended, unless the disk does not take it, and ends.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.shut()
	l.mu.Unlock()
	close(l.quit)
	l.wg.Wait()
	defer l.endAsking()
	return errors.Join(l.sync(), l.lock.Close())
}

// End is where the entry ends in its file.
func (p Place) End() int64 { return int64(p.At) + headerBytes + int64(p.Size) }
