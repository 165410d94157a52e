package records

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// errSpoolFull means that the spool uses all of its disk space.
var errSpoolFull = errors.New("spool is full")

// SpoolConfig sets the directory and the limits of a spool. Zero values below Dir mean
// the defaults.
type SpoolConfig struct {
	Dir          string
	Bytes        int64 // most on disk, approximately; default 1 GiB
	SegmentBytes int   // size of a file; default 8 MiB
	Sync         wal.Sync
	Timeout      time.Duration // of the disk; default 1 s
	Log          *slog.Logger
}

// DiskSpool is a Spool in files. It keeps no documents in memory. If the process ends
// between sending and removing documents, the next process sends them again, and the
// database answers with a conflict.
type DiskSpool struct {
	cfg SpoolConfig
	log *wal.Log

	mu      sync.Mutex
	docs    int         // Append adds documents before they are on disk
	busy    int         // calls of Append in progress
	segment wal.Segment // of the oldest document
	from    int64       // its offset
	peeked  []position  // ends of the documents of the last Peek
}

// position is the end of a document.
type position struct {
	segment wal.Segment
	from    int64
}

// OpenSpool opens a spool with the documents that an earlier process left.
func OpenSpool(cfg SpoolConfig) (*DiskSpool, error) {
	if cfg.Bytes == 0 {
		cfg.Bytes = 1 << 30
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &DiskSpool{cfg: cfg}
	var err error
	s.log, err = wal.Open(wal.Config{Dir: cfg.Dir, SegmentBytes: cfg.SegmentBytes, Sync: cfg.Sync, Timeout: cfg.Timeout, Log: cfg.Log},
		func(wal.Position, []byte) { s.docs++ })
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	s.segment = s.log.Oldest()
	return s, nil
}

// Append stores documents.
func (s *DiskSpool) Append(docs []Document) error {
	if _, err := s.log.Err(); err != nil {
		return err
	}
	size := int64(0)
	for _, doc := range docs {
		size += int64(len(doc.ID) + len(doc.Body))
	}
	if unwritten := s.log.Bytes(); unwritten > 0 && unwritten+size > s.cfg.Bytes {
		return fmt.Errorf("%w: %d bytes of %d", errSpoolFull, unwritten, s.cfg.Bytes)
	}
	s.mu.Lock()
	s.docs += len(docs)
	s.busy++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.busy--
		s.mu.Unlock()
	}()
	var last wal.PendingWrite
	for _, doc := range docs {
		last = s.log.Append(spooledHead(doc.ID), doc.Body)
	}
	return last.Wait()
}

// Peek returns the oldest documents.
func (s *DiskSpool) Peek(n, bytes int) ([]Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peeked = s.peeked[:0]
	var docs []Document
	if s.docs == 0 {
		return nil, nil
	}
	for at, from := s.segment, s.from; ; at, from = at+1, 0 {
		if at == s.log.Head() && (len(docs) > 0 || s.log.Roll() == at) {
			break // read only segments that are no longer appended to
		}
		_, end, err := s.log.Each(at, from, func(p wal.Position, payload []byte) bool {
			doc, ok := decodeSpooled(payload)
			if !ok {
				s.cfg.Log.Error("a spooled record cannot be decoded", "segment", p.Segment, "at", p.Offset)
				return true
			}
			if bytes -= len(doc.Body); len(docs) == n || len(docs) > 0 && bytes < 0 {
				return false
			}
			docs = append(docs, doc)
			s.peeked = append(s.peeked, position{at, p.End()})
			return true
		})
		if err != nil {
			return nil, err
		}
		if !end {
			return docs, nil
		}
		if len(docs) == 0 {
			s.pass(at + 1)
		}
	}
	if len(docs) == 0 && s.busy == 0 && s.segment == s.log.Head() {
		s.docs = 0 // fewer documents were readable than counted
	}
	return docs, nil
}

// pass removes all files before a segment. A file that cannot be deleted is tried again
// at the next call.
func (s *DiskSpool) pass(next wal.Segment) {
	s.segment, s.from = max(s.segment, next), 0
	for n := s.log.Oldest(); n < s.segment; n++ {
		if err := s.log.Drop(n); err != nil {
			s.cfg.Log.Error("a file of the spool cannot be deleted now", "error", err)
			return
		}
	}
}

// Remove removes the oldest documents, which Peek has just returned.
func (s *DiskSpool) Remove(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > len(s.peeked) {
		return fmt.Errorf("remove %d documents from a spool that returned %d", n, len(s.peeked))
	}
	if n == 0 {
		return nil
	}
	last := s.peeked[n-1]
	s.pass(last.segment)
	s.from = last.from
	s.docs -= n
	s.peeked = s.peeked[:copy(s.peeked, s.peeked[n:])]
	if s.docs <= 0 {
		s.docs = 0
		s.pass(s.log.Head())
	}
	return nil
}

// Err returns the error that keeps the spool from writing, nil if there is none.
func (s *DiskSpool) Err() error {
	_, err := s.log.Err()
	return err
}

// Documents returns the number of documents.
func (s *DiskSpool) Documents() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.docs
}

// Bytes returns the size on disk.
func (s *DiskSpool) Bytes() int64 { return s.log.Bytes() }

// Close closes the files.
func (s *DiskSpool) Close() error { return s.log.Close() }

// spooledHead returns the bytes that precede a document's body.
func spooledHead(id string) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(id))), id...)
}

func decodeSpooled(payload []byte) (Document, bool) {
	n, size := binary.Uvarint(payload)
	if size <= 0 || n > uint64(len(payload)-size) {
		return Document{}, false
	}
	id := payload[size : size+int(n)]
	return Document{ID: string(id), Body: append([]byte(nil), payload[size+int(n):]...)}, true
}
