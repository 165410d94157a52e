package wal

import (
	"os"
	"path/filepath"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// batch holds the entries that the writer writes at once.
type batch struct {
	chunks []chunk
	done   chan struct{} // closed when the batch is written, or the log has ended
	err    error         // set before done is closed
}

// chunk is the part of a batch for one file.
type chunk struct {
	file   *segment
	offset int64
	data   []byte
}

// PendingWrite stands for an appended entry.
type PendingWrite struct {
	Position Position
	batch    *batch
	log      *Log
}

// Append appends an entry with the payload head followed by body. It does not wait for
// the disk; PendingWrite.Wait does.
func (l *Log) Append(head, body []byte) PendingWrite {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		b := &batch{done: make(chan struct{}), err: errClosed}
		close(b.done)
		return PendingWrite{batch: b, log: l}
	}
	size := headerBytes + len(head) + len(body)
	if l.headSize > 0 && l.headSize+size > l.cfg.SegmentBytes {
		l.roll()
	}
	if l.pending == nil {
		l.pending = &batch{done: make(chan struct{})}
		l.newest = l.pending
		signal(l.wake)
	}
	b, file := l.pending, l.files[l.head]
	if n := len(b.chunks); n == 0 || b.chunks[n-1].file != file {
		b.chunks = append(b.chunks, chunk{file: file, offset: int64(l.headSize)})
	}
	c := &b.chunks[len(b.chunks)-1]
	c.data = appendFrame(c.data, file.salt, head, body)
	p := Position{l.head, uint32(l.headSize), uint32(len(head) + len(body))}
	l.headSize += size
	file.size += int64(size)
	l.total += int64(size)
	return PendingWrite{p, b, l}
}

// Appended returns the receipt for all entries so far.
func (l *Log) Appended() PendingWrite {
	l.mu.Lock()
	defer l.mu.Unlock()
	return PendingWrite{batch: l.newest, log: l}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Wait blocks until the entry is written, and with SyncEach also synced. If the disk is in
// trouble, it returns that error, and the entry is written later.
func (r PendingWrite) Wait() error {
	if r.batch == nil {
		return nil // the zero PendingWrite
	}
	for {
		r.log.mu.Lock()
		_, trouble := r.log.trouble()
		changed := r.log.changed
		r.log.mu.Unlock()
		select {
		case <-r.batch.done:
			return r.batch.err
		default:
		}
		if trouble != nil {
			return trouble
		}
		select {
		case <-r.batch.done:
		case <-changed:
		}
	}
}

// write is the writer goroutine.
func (l *Log) write() {
	w := writer{log: l}
	defer w.close()
	for {
		closing := false
		select {
		case <-l.wake:
		case <-l.quit:
			closing = true
		}
		l.mu.Lock()
		b := l.pending
		l.pending = nil
		l.mu.Unlock()
		if b != nil {
			b.err = w.batch(b, closing)
			b.chunks = nil // receipts refer to the batch for longer
			close(b.done)
		}
		if closing {
			return
		}
	}
}

// writer holds the file that is being written.
type writer struct {
	log  *Log
	name string
	file *os.File
}

// batch writes a batch. It repeats failed writes, except when the log closes.
func (w *writer) batch(b *batch, closing bool) error {
	for i := 0; i < len(b.chunks); {
		err := w.log.timed(writing, func() error { return w.chunk(b.chunks[i]) })
		switch {
		case err == nil:
			i++
		case closing || !retry.SleepUnless(w.log.quit, w.log.cfg.Retry):
			return err
		}
	}
	return nil
}

// chunk writes a chunk. If it fails, the next try overwrites the incomplete bytes, or
// the next start cuts them off.
func (w *writer) chunk(c chunk) error {
	if w.name != c.file.name {
		if err := w.open(c.file.name); err != nil {
			return err
		}
	}
	if _, err := w.file.WriteAt(c.data, c.offset); err != nil {
		return err
	}
	switch w.log.cfg.Sync {
	case SyncEach:
		return w.file.Sync()
	case SyncBatch:
		w.log.mu.Lock()
		c.file.dirty = true
		w.log.mu.Unlock()
		signal(w.log.unsync)
	}
	return nil
}

func (w *writer) open(name string) error {
	f, err := os.OpenFile(filepath.Join(w.log.cfg.Dir, name), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w.close()
	w.file, w.name = f, name
	if w.log.cfg.Sync == SyncNone {
		return nil
	}
	return syncPath(w.log.cfg.Dir)
}

func (w *writer) close() {
	if w.file != nil {
		_ = w.file.Close()
	}
	w.file, w.name = nil, ""
}
