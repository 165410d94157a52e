package wal

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// batch is what one turn of the writer takes.
type batch struct {
	chunks []chunk
	done   chan struct{} // closed when it is written, or the log has ended
	err    error         // set before done is closed
}

// chunk is a part of a batch that goes to one file.
type chunk struct {
	segment Segment
	file    *segment
	at      int64 // in the file
	data    []byte
}

// Receipt is for one appended entry.
type Receipt struct {
	Place Place
	batch *batch // nil: it is with the system
	log   *Log
}

// Append appends an entry, whose payload is head and then body. It does not
// wait for the disk; Receipt.Kept does.
func (l *Log) Append(head, body []byte) Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Receipt{batch: closedBatch(), log: l}
	}
	size := headerBytes + len(head) + len(body)
	if l.headSize > 0 && l.headSize+size > l.cfg.SegmentBytes {
		l.roll()
	}
	file := l.files[l.head]
	p := Place{l.head, uint32(l.headSize), uint32(len(head) + len(body))}
	var b *batch
	if w := l.window; w != nil && w.put(l.headSize, file.salt, head, body) {
		l.stains(w.file)
	} else {
		l.shut()
		b = l.queue(file, head, body)
	}
	l.headSize += size
	file.size += int64(size)
	l.total += int64(size)
	return Receipt{p, b, l}
}

// queue gives an entry to the writer.
func (l *Log) queue(file *segment, head, body []byte) *batch {
	if l.next == nil {
		l.next = &batch{done: make(chan struct{})}
		l.newest = l.next
		signal(l.wake)
	}
	b := l.next
	if n := len(b.chunks); n == 0 || b.chunks[n-1].segment != l.head {
		b.chunks = append(b.chunks, chunk{segment: l.head, file: file, at: int64(l.headSize), data: l.spare[:0]})
		l.spare = nil
	}
	c := &b.chunks[len(b.chunks)-1]
	c.data = appendFrame(c.data, file.salt, head, body)
	return b
}

func closedBatch() *batch {
	b := &batch{done: make(chan struct{}), err: ErrClosed}
	close(b.done)
	return b
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Kept waits until the entry is written, with Each also synced. It does not
// wait out trouble: then it returns that, and the entry is written later.
func (r Receipt) Kept() error {
	if r.batch == nil {
		return nil
	}
	for {
		r.log.mu.Lock()
		trouble, changed := r.log.troubled(), r.log.changed
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
			return r.batch.err
		case <-changed:
		}
	}
}

// write is the writer.
func (l *Log) write() {
	w := writer{log: l}
	defer w.close()
	for {
		select {
		case <-l.wake:
		case <-l.quit:
			l.turn(&w, true)
			return
		}
		l.turn(&w, false)
	}
}

// turn writes what was appended since the last turn.
func (l *Log) turn(w *writer, last bool) {
	l.mu.Lock()
	b := l.next
	l.next = nil
	l.mu.Unlock()
	if b == nil {
		return
	}
	w.giveBack() // what they had is before this batch
	b.err = w.insist(b, last)
	close(b.done)
	w.look()
	spare := b.chunks[len(b.chunks)-1].data
	b.chunks = nil // the batch is known for longer
	if cap(spare) <= maxSpare {
		l.mu.Lock()
		l.spare = spare
		l.mu.Unlock()
	}
}

// maxSpare is the largest buffer that is kept for the next batch.
const maxSpare = 1 << 20

// writer has the file that is being written.
type writer struct {
	log     *Log
	segment Segment
	file    *os.File
	size    int64   // written to the file, as far as the writer knows
	taken   int64   // room of the file that was taken for a window
	blind   Segment // the file that had no window
}

// insist writes a batch, as often as it takes, but once when the log closes.
func (w *writer) insist(b *batch, last bool) error {
	for i := 0; i < len(b.chunks); {
		err := w.log.do(writing, func() error { return w.chunk(b.chunks[i]) })
		switch {
		case err == nil:
			i++
		case last || !outage.WaitFor(w.log.quit, w.log.cfg.Retry):
			return err
		}
	}
	return nil
}

// chunk writes one chunk whole, or leaves the file as it was.
func (w *writer) chunk(c chunk) error {
	if w.file == nil || w.segment != c.segment {
		if err := w.open(c); err != nil {
			return err
		}
	}
	n, err := w.file.WriteAt(c.data, c.at)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, w.file.Truncate(c.at))
		}
		return err
	}
	w.size = c.at + int64(n)
	switch w.log.cfg.Sync {
	case Each:
		return w.file.Sync()
	case Batch:
		w.log.dirty(w.file)
	}
	return nil
}

func (w *writer) open(c chunk) error {
	f, err := os.OpenFile(filepath.Join(w.log.cfg.Dir, c.file.name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	w.close()
	w.file, w.segment, w.size, w.taken = f, c.segment, 0, 0
	if w.log.cfg.Sync == None {
		return nil
	}
	return syncDir(w.log.cfg.Dir)
}

// cut gives back what was taken for a window and is not used.
func (w *writer) cut() {
	w.giveBack()
	if w.taken == 0 {
		return
	}
	w.log.mu.Lock()
	file := w.log.files[w.segment]
	w.log.mu.Unlock()
	if file != nil && file.size < w.taken { // nothing is appended to it any more
		_ = w.file.Truncate(file.size) // or it is done at the next start
	}
}

// close ends the work on a file; the syncer, where there is one, may be at it
// and closes it.
func (w *writer) close() {
	if w.file == nil {
		return
	}
	w.cut()
	if w.log.cfg.Sync == Batch {
		w.log.mu.Lock()
		w.log.left = append(w.log.left, w.file)
		w.log.mu.Unlock()
		signal(w.log.stale)
	} else {
		_ = w.file.Close()
	}
	w.file = nil
}
