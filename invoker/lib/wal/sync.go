package wal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// syncEvery is the syncer goroutine.
func (l *Log) syncEvery() {
	for {
		select {
		case <-l.unsync:
		case <-l.quit:
			return
		}
		if !retry.SleepUnless(l.quit, l.cfg.SyncEvery) {
			return
		}
		for l.Sync() != nil {
			if !retry.SleepUnless(l.quit, l.cfg.Retry) {
				return
			}
		}
	}
}

// Sync makes all written entries survive a loss of power. It is a no-op with None.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	for s := l.takeDirty(); s != nil; s = l.takeDirty() {
		if err := l.timed(syncing, func() error { return l.syncFile(s) }); err != nil {
			l.mu.Lock()
			s.dirty = true
			l.mu.Unlock()
			return err
		}
	}
	return nil
}

// takeDirty returns a file with unsynced writes and marks it as synced. It returns nil
// if there is none.
func (l *Log) takeDirty() *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.files {
		if s.dirty {
			s.dirty = false
			return s
		}
	}
	return nil
}

func (l *Log) syncFile(s *segment) error {
	err := syncPath(filepath.Join(l.cfg.Dir, s.name))
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.dropped && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncPath syncs a file, or the entries of a directory.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// The operations on the disk.
const (
	writing = iota
	syncing
)

var operations = [2]string{"write", "sync"}

// operation is the state of writing or syncing.
type operation struct {
	err   error // nil if it works
	since time.Time
}

// timed runs an operation on the disk. A failure counts as trouble until the next run
// succeeds. A run that exceeds the timeout counts as trouble until it ends.
func (l *Log) timed(op int, run func() error) error {
	ended := false
	alarm := time.AfterFunc(l.cfg.Timeout, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !ended && l.disk[op].err == nil {
			l.setTrouble(op, fmt.Errorf("%s log: the disk is slow, not done in %s", operations[op], l.cfg.Timeout))
		}
	})
	err := run()
	alarm.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	ended = true
	if err != nil {
		err = fmt.Errorf("%s log: %w", operations[op], err)
	}
	l.setTrouble(op, err)
	return err
}

// setTrouble records the start or end of trouble with an operation. The caller must hold
// mu.
func (l *Log) setTrouble(op int, err error) {
	o := &l.disk[op]
	switch {
	case err == nil && o.err == nil:
		return
	case err == nil:
		l.cfg.Log.Info("a log can be written again", "dir", l.cfg.Dir, "after", time.Since(o.since).Round(time.Millisecond))
	case o.err == nil:
		o.since = time.Now()
		l.cfg.Log.Error("a log cannot be written", "dir", l.cfg.Dir, "error", err)
	}
	o.err = err
	close(l.changed)
	l.changed = make(chan struct{})
}

// Err returns the error that keeps the log from writing, and its start. It returns
// nil if there is none.
func (l *Log) Err() (since time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble()
}

// trouble implements Err. The caller must hold mu.
func (l *Log) trouble() (since time.Time, err error) {
	for _, o := range l.disk {
		if o.err != nil {
			return o.since, o.err
		}
	}
	return time.Time{}, nil
}

// Ready blocks until the log can be written again, and returns an error if ctx ends first.
func (l *Log) Ready(ctx context.Context) error {
	for {
		l.mu.Lock()
		_, trouble := l.trouble()
		changed := l.changed
		l.mu.Unlock()
		if trouble == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for log %s: %w: %w", l.cfg.Dir, ctx.Err(), trouble)
		case <-l.quit:
			return errClosed
		}
	}
}
