// Package userlogs writes the output of actions to files for log shippers. The files
// have the names, the permissions and the rotation of OpenWhisk's
// DockerToActivationFileLogStore. The caller decides the content of the lines.
//
// Write never blocks. Lines wait in a buffer until a goroutine has written them. If the
// buffer is full, lines are dropped and counted; the activation's record has them all
// the same. New starts the goroutine, and Close ends it.
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

// Config holds the place and the sizes of the files.
type Config struct {
	Dir      string
	FileSize int64 // a new file begins before an entry that would exceed this size
	Buffer   int64 // most bytes that wait for the disk
	Log      *slog.Logger
}

// Files writes the log files of one process.
type Files struct {
	cfg   Config
	open  func(path string) (*os.File, error)
	retry *retry.Retrier
	wake  chan struct{} // capacity 1: entries may wait
	ended chan struct{}
	stop  context.CancelFunc

	// Used by the goroutine alone.
	file *os.File
	size int64

	mu      sync.Mutex
	waiting [][]byte
	bytes   int64 // of waiting, and of the entry that is being written
	closing bool
	dropped int64
}

// New creates the directory if it is missing. It returns an error if no file can be
// created there.
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
		wake: make(chan struct{}, 1), ended: make(chan struct{}), stop: stop,
	}
	go f.run(ctx)
	return f
}

// create creates a file that log shippers may read and truncate, like OpenWhisk's.
func create(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(0o666); err != nil { // the umask may have cleared bits
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Write adds the lines of one activation, which stay together in the file. It keeps the
// slice, and never blocks.
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
	case f.wake <- struct{}{}:
	default:
	}
}

// Trouble returns the error of the last write, empty if the write succeeded.
func (f *Files) Trouble() string { return f.retry.LastError() }

// Dropped returns the number of activations whose lines were dropped.
func (f *Files) Dropped() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}

// Close writes the waiting entries. It returns an error if ctx ends before all are
// written.
func (f *Files) Close(ctx context.Context) error {
	f.mu.Lock()
	f.closing = true
	f.mu.Unlock()
	close(f.wake) // Write sends no more
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
		return fmt.Errorf("write log files: lines of %d activations are not written: %s", n, f.Trouble())
	}
	return nil
}

func (f *Files) run(ctx context.Context) {
	defer close(f.ended)
	defer func() { f.closeFile() }()
	for range f.wake {
		for f.writeNext(ctx) {
		}
		if ctx.Err() != nil {
			return
		}
	}
	for f.writeNext(ctx) {
	}
}

// writeNext writes the oldest entry, and reports whether to call it again. An entry stays in
// the buffer until it is written.
func (f *Files) writeNext(ctx context.Context) bool {
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

// write appends an entry to the file. After an error it removes the part that was
// written, and the next call begins a new file.
func (f *Files) write(entry []byte) error {
	if f.file != nil && f.size+int64(len(entry)) > f.cfg.FileSize {
		f.closeFile()
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
		f.closeFile()
		return errors.Join(err, cut)
	}
	f.size += int64(len(entry))
	return nil
}

func (f *Files) closeFile() {
	if f.file == nil {
		return
	}
	if err := f.file.Close(); err != nil {
		f.cfg.Log.Warn("close log file", "error", err)
	}
	f.file = nil
}

// rotate begins a file that is named for the current millisecond, or for the next one
// if that file exists.
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
