package journal

import (
	"errors"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// The oldest file is deleted first. A file in the middle is never deleted, because an
// older file could have an older state of the same activation. A few activations that wait
// for long must not keep all later files: if the files are larger than slackFactor times
// the needed bytes and slackSegments more, the needed entries of the oldest file are
// written again.
const (
	slackFactor   = 2
	slackSegments = 4
)

func (j *Journal) nudge() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// compact is the compactor goroutine.
func (j *Journal) compact() {
	for {
		select {
		case <-j.wake:
		case <-j.quit:
			return
		}
		for j.dropOldest() {
		}
	}
}

// dropOldest deletes the oldest file if it can. It returns whether there may be
// more to do.
func (j *Journal) dropOldest() bool {
	select {
	case <-j.quit:
		return false
	default:
	}
	n, head := j.log.Oldest(), j.log.Head()
	j.mu.Lock()
	needed := j.refs[n] > 0
	slack := slackFactor*j.live + slackSegments*int64(j.cfg.SegmentBytes)
	j.mu.Unlock()
	switch {
	case n >= head:
		return false
	case needed && j.log.Bytes() <= slack:
		return false
	case needed && !j.rewrite(n):
		return false
	}
	// Newer states of the file's activations must be safe before the file goes.
	if j.log.Appended().Wait() != nil || j.log.Sync() != nil {
		return false
	}
	if err := j.log.Drop(n); err != nil {
		j.cfg.Log.Error("a file of the journal stays for now", "error", err)
		return false
	}
	return true
}

// rewrite appends the needed entries of a file again. It returns false if some cannot be
// read.
func (j *Journal) rewrite(n wal.Segment) bool {
	if _, err := j.log.Err(); err != nil {
		return false
	}
	for _, k := range j.neededOf(n) {
		for _, kind := range []payloadKind{message, result} {
			if !j.rewritePayload(k, kind, n) {
				return false
			}
		}
		j.rewriteState(k, n)
	}
	return true
}

func (j *Journal) neededOf(n wal.Segment) []key {
	j.mu.Lock()
	defer j.mu.Unlock()
	var keys []key
	for k, e := range j.known {
		if e.at == n || e.payloads[message].Segment == n || e.payloads[result].Segment == n {
			keys = append(keys, k)
		}
	}
	return keys
}

// rewritePayload appends a payload with its state if the payload is in file n. It returns
// false if the payload still needs the file.
func (j *Journal) rewritePayload(k key, kind payloadKind, n wal.Segment) bool {
	at := j.position(k, kind)
	if at.Segment != n {
		return true
	}
	text, err := j.read(at, kind)
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known[k]
	switch {
	case e == nil || e.payloads[kind] != at:
	case errors.Is(err, wal.ErrDamaged):
		j.cfg.Log.Error("a payload in the journal cannot be read and is dropped", "activation", k.id(), "error", err)
		j.dropPayload(e, kind)
	case err != nil:
		return false
	default:
		j.writePayload(k, e, kind, text)
	}
	return true
}

// rewriteState appends a state if it lies in a file.
func (j *Journal) rewriteState(k key, n wal.Segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.known[k]; e != nil && e.at == n {
		j.writeState(k, e)
	}
}
