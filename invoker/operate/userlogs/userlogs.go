// Package userlogs writes what actions print to files, where programs that ship
// logs pick it up: those of OpenWhisk's DockerToActivationFileLogStore, with its
// names, its permissions and its rotation. What stands in a line is the
// invoker's choice.
//
// No activation waits for it. What the disk does not take waits in a buffer, and
// what the buffer does not hold is dropped and counted: it is in the
// activation's record all the same.
//
// Its goroutine writes; New starts it, Close ends it.
package userlogs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Config is where the files are, and how large.
type Config struct {
	Dir      string
	FileSize int64 // a file ends before an entry that would make it larger
	Buffer   int64 // bytes that wait for the disk at most
	Log      *slog.Logger
}

// Files is the files of one process.
type Files struct {
	cfg   Config
	open  func(path string) (*os.File, error)
	retry *retry.Retrier
	more  chan struct{} // holds one: there may be something to write
	ended chan struct{}
	stop  context.CancelFunc

	// Of the goroutine.
	file *os.File
	size int64

	mu      sync.Mutex
	waiting [][]byte
	bytes   int64 // of waiting and of what is being written
	closing bool
	dropped int64
}

// New makes the directory where it is missing, and fails at once if no file can
// be made there.
func New(cfg Config) (*Files, error) {
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of log files: %w", err)
	}
	probe, err := os.CreateTemp(cfg.Dir, ".gpuwhisk-*")
	if err != nil {
		return nil, fmt.Errorf("try the directory of log files: %w", err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, fmt.Errorf("try the directory of log files: %w", err)
	}
	return start(cfg, create), nil
}

func start(cfg Config, open func(string) (*os.File, error)) *Files {
	ctx, stop := context.WithCancel(context.Background())
	f := &Files{
		cfg: cfg, open: open, retry: retry.New(cfg.Log, "writing log files"),
		more: make(chan struct{}, 1), ended: make(chan struct{}), stop: stop,
	}
	go f.run(ctx)
	return f
}

// create makes a new file that a log shipper may read and truncate, as the
// original's are.
func create(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(0o666); err != nil { // whatever the umask is
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Write takes the lines of one activation, which stay together. It keeps them,
// and waits for nothing.
func (f *Files) Write(entry []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing || f.bytes+int64(len(entry)) > f.cfg.Buffer {
		if f.dropped++; f.dropped == 1 {
			f.cfg.Log.Error("log lines are dropped from the log files: the disk does not keep up", "directory", f.cfg.Dir)
		}
		return
	}
	f.waiting = append(f.waiting, entry)
	f.bytes += int64(len(entry))
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// Trouble is why nothing is written, empty where all is well.
func (f *Files) Trouble() string { return f.retry.LastError() }

// Dropped counts the activations whose lines are in no file.
func (f *Files) Dropped() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}

// Close writes what waits, until ctx ends.
func (f *Files) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closing = true
	f.mu.Unlock()
	close(f.more) // Write sends no more
	select {
	case <-f.ended:
	case <-ctx.Done():
		f.stop()
		<-f.ended
	}
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.waiting); n > 0 {
		return fmt.Errorf("write log files: lines of %d activations are left: %s", n, f.Trouble())
	}
	return nil
}

func (f *Files) run(ctx context.Context) {
	defer close(f.ended)
	defer func() { f.abandon() }()
	for range f.more {
		for f.step(ctx) {
		}
		if ctx.Err() != nil {
			return
		}
	}
	for f.step(ctx) {
	}
}

// step writes the entry that has waited longest. It reports whether there may be
// another; what is not written stays.
func (f *Files) step(ctx context.Context) bool {
	f.mu.Lock()
	if len(f.waiting) == 0 {
		f.waiting = nil
		f.mu.Unlock()
		return false
	}
	entry := f.waiting[0]
	f.mu.Unlock()
	if err := f.write(entry); err != nil {
		return f.retry.Wait(ctx, err)
	}
	f.retry.Succeeded()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[0] = nil
	f.waiting = f.waiting[1:]
	f.bytes -= int64(len(entry))
	return true
}

// write puts an entry into the file, or nothing of it: the next try is at a new
// file.
func (f *Files) write(entry []byte) error {
	if f.file != nil && f.size+int64(len(entry)) > f.cfg.FileSize {
		f.abandon()
	}
	if f.file == nil {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	if _, err := f.file.Write(entry); err != nil {
		cut := f.file.Truncate(f.size)
		if f.size == 0 {
			cut = os.Remove(f.file.Name())
		}
		f.abandon()
		return errors.Join(err, cut)
	}
	f.size += int64(len(entry))
	return nil
}

func (f *Files) abandon() {
	if f.file == nil {
		return
	}
	if err := f.file.Close(); err != nil {
		f.cfg.Log.Warn("close log file", "error", err)
	}
	f.file = nil
}

// rotate begins a file that is named for this moment, or for the next that no
// file has the name of.
func (f *Files) rotate() error {
	for now := time.Now().UnixMilli(); ; now++ {
		path := filepath.Join(f.cfg.Dir, fmt.Sprintf("userlogs-%d.log", now))
		file, err := f.open(path)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		f.file, f.size = file, 0
		f.cfg.Log.Info(fmt.Sprintf("Rotating log file to '%s'", path))
		return nil
	}
}
