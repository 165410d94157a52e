package wal

import (
	"context"
	"fmt"
	"time"
)

// What is done at the disk.
const (
	writing = iota
	syncing
)

var words = [2]string{"write", "sync"}

// task is one of these.
type task struct {
	turn    int // counts, so that a late alarm knows that its turn is over
	trouble error
	since   time.Time
}

// do carries out one turn of a task. A failure is trouble until the next turn
// succeeds, a turn that takes long until it ends.
func (l *Log) do(what int, turn func() error) error {
	l.mu.Lock()
	l.tasks[what].turn++
	mine := l.tasks[what].turn
	l.mu.Unlock()
	alarm := time.AfterFunc(l.cfg.Patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.tasks[what].turn == mine && l.tasks[what].trouble == nil {
			l.report(what, fmt.Errorf("%s log: the disk is slow, not done in %s", words[what], l.cfg.Patience))
		}
	})
	err := turn()
	alarm.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks[what].turn++
	if err != nil {
		err = fmt.Errorf("%s log: %w", words[what], err)
	}
	l.report(what, err)
	return err
}

// report notes trouble with a task, or its end. The caller holds the lock.
func (l *Log) report(what int, err error) {
	t := &l.tasks[what]
	switch {
	case err == nil && t.trouble == nil:
		return
	case err == nil:
		l.cfg.Log.Info("the disk takes a log again", "dir", l.cfg.Dir, "after", time.Since(t.since).Round(time.Millisecond))
	case t.trouble == nil:
		t.since = time.Now()
		l.cfg.Log.Error("the disk does not take a log", "dir", l.cfg.Dir, "error", err)
	}
	t.trouble = err
	close(l.changed)
	l.changed = make(chan struct{})
}

// troubled gives the first trouble there is. The caller holds the lock.
func (l *Log) troubled() error {
	for _, t := range l.tasks {
		if t.trouble != nil {
			return t.trouble
		}
	}
	return nil
}

// Trouble is what keeps the log from writing, and since when; nil when all is
// well.
func (l *Log) Trouble() (since time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tasks {
		if t.trouble != nil {
			return t.since, t.trouble
		}
	}
	return time.Time{}, nil
}

// Well waits until there is no trouble.
func (l *Log) Well(ctx context.Context) error {
	for {
		l.mu.Lock()
		trouble, changed := l.troubled(), l.changed
		l.mu.Unlock()
		if trouble == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for log %s: %w: %w", l.cfg.Dir, ctx.Err(), trouble)
		case <-l.quit:
			return ErrClosed
		}
	}
}
