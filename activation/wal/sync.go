package wal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// dirty notes that a file has something to sync.
func (l *Log) dirty(f *os.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stains(f)
}

// stains is dirty for who holds the lock.
func (l *Log) stains(f *os.File) {
	if l.cfg.Sync == Batch && !slices.Contains(l.unsynced, f) {
		l.unsynced = append(l.unsynced, f)
		signal(l.stale)
	}
}

// keepSynced is the syncer.
func (l *Log) keepSynced() {
	for {
		select {
		case <-l.stale:
		case <-l.quit:
			return
		}
		if !outage.WaitFor(l.quit, l.cfg.SyncEvery) {
			return
		}
		for l.sync() != nil {
			if !outage.WaitFor(l.quit, l.cfg.Retry) {
				return
			}
		}
	}
}

// sync syncs what was written and closes files that are no longer written. Of
// two at a time the second waits for what the first has begun.
func (l *Log) sync() error {
	l.syncs.Lock()
	defer l.syncs.Unlock()
	l.mu.Lock()
	unsynced, left := l.unsynced, l.left
	l.unsynced, l.left = nil, nil
	l.mu.Unlock()
	for i, f := range unsynced {
		if err := l.do(syncing, func() error { return l.dataSync(f) }); err != nil {
			l.mu.Lock()
			l.unsynced = append(unsynced[i:], l.unsynced...)
			l.left = append(left, l.left...)
			l.mu.Unlock()
			return err
		}
	}
	var errs []error
	for _, f := range left {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// dataSync syncs one file. The caller holds syncs.
func (l *Log) dataSync(f *os.File) error {
	if l.asker == nil && !l.unasked {
		a, err := newAsker()
		l.asker, l.unasked = a, err != nil
	}
	if l.asker != nil {
		if ok, err := l.asker.sync(f); ok {
			return err
		}
		l.asker.close()
		l.asker, l.unasked = nil, true
	}
	return syscall.Fdatasync(int(f.Fd()))
}

// endAsking is called when nothing is synced any more.
func (l *Log) endAsking() {
	l.syncs.Lock()
	defer l.syncs.Unlock()
	if l.asker != nil {
		l.asker.close()
	}
	l.asker, l.unasked = nil, true
}

// Sync has everything that is written survive a loss of power, except with
// None.
func (l *Log) Sync() error {
	if l.cfg.Sync == None {
		return nil
	}
	return l.sync()
}

// syncDir makes the names of new files survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory of log: %w", err)
	}
	return nil
}
