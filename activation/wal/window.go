package wal

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
)

// windowBytes is how much of a file is mapped at a time: room for some thousand
// small entries, since to take the next one costs as much as to write a thousand.
// What a killed process leaves of it unused is zeros.
const windowBytes = 512 << 10

// leastWindow is the smallest one at the end of a file that is worth it.
const leastWindow = 16 << 10

// window is the part of the newest file that entries are copied into: memory
// that the system shares with the file. What was copied there survives the end
// of this process as what was written does, and costs no call and no other
// goroutine's turn. Its room on the disk is taken beforehand, so that a full
// disk is an error of that, not of the copying.
type window struct {
	segment Segment
	file    *os.File
	data    []byte // from base on
	base    int
}

// openWindow makes a window at the end of a file, from at on, for as many bytes as
// are left there.
func openWindow(f *os.File, n Segment, at, left int64) (*window, error) {
	base := at &^ int64(os.Getpagesize()-1)
	size := min(windowBytes, at-base+left)
	err := syscall.Fallocate(int(f.Fd()), 0, base, size)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take room for log: %w", err), f.Truncate(at))
	}
	data, err := syscall.Mmap(int(f.Fd()), base, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map log: %w", err), f.Truncate(at))
	}
	return &window{segment: n, file: f, data: data, base: int(base)}, nil
}

// put copies a frame of an entry to a position of the file. ok is false where
// it does not fit, or the memory failed, as it does when somebody cut the file.
func (w *window) put(at int, salt uint32, head, body []byte) (ok bool) {
	room := w.room(at, headerBytes+len(head)+len(body))
	if room == nil {
		return false
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer caught(&ok)
	appendFrame(room, salt, head, body)
	return true
}

// copy copies frames to a position of the file, under the same conditions.
func (w *window) copy(at int, frames []byte) (ok bool) {
	room := w.room(at, len(frames))
	if room == nil {
		return false
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer caught(&ok)
	_ = append(room, frames...)
	return true
}

// room is the memory of so many bytes at a position of the file, to be appended
// to; nil where the window ends before them.
func (w *window) room(at, size int) []byte {
	from := at - w.base
	if size > len(w.data)-from {
		return nil
	}
	return w.data[from : from : from+size]
}

// caught is deferred: memory that failed was not ok.
func caught(ok *bool) {
	if recover() != nil {
		*ok = false
	}
}

// close gives the memory back. The caller has seen to it that nobody copies.
func (w *window) close() error { return syscall.Munmap(w.data) }

// shut ends the use of the window; the writer gives it back. The caller holds
// the lock.
func (l *Log) shut() {
	if l.window != nil {
		l.shutWindows = append(l.shutWindows, l.window)
		l.window = nil
	}
}

// look has what is appended from here on copied into a window of the writer's
// file, and copies what was appended meanwhile.
func (w *writer) look() {
	l := w.log
	left := int64(l.cfg.SegmentBytes) - w.size
	if l.cfg.Sync == Each || w.file == nil || w.blind == w.segment || left < leastWindow {
		return
	}
	l.mu.Lock()
	open := l.window == nil && l.head == w.segment && !l.closed
	l.mu.Unlock()
	if !open {
		return
	}
	v, err := openWindow(w.file, w.segment, w.size, left)
	if err != nil {
		w.blind = w.segment // this disk, or as full as it is: written as it comes
		return
	}
	w.taken = int64(v.base + len(v.data))
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.next; !l.closed && l.head == w.segment && (b == nil || v.takes(b)) {
		l.window = v
		if b != nil {
			l.next, l.spare, b.chunks = nil, b.chunks[0].data, nil
			l.stains(w.file)
			close(b.done)
		}
		return
	}
	l.shutWindows = append(l.shutWindows, v)
}

// takes copies a batch that was not written.
func (w *window) takes(b *batch) bool {
	c := b.chunks[0]
	return len(b.chunks) == 1 && c.segment == w.segment &&
		w.copy(int(c.at), c.data)
}

// giveBack unmaps the windows that are shut.
func (w *writer) giveBack() {
	w.log.mu.Lock()
	shut := w.log.shutWindows
	w.log.shutWindows = nil
	w.log.mu.Unlock()
	for _, v := range shut {
		_ = v.close()
	}
}
