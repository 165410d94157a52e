package journal

import "github.com/gpuwhisk/gpuwhisk/activation/wal"

// Files are deleted from the oldest on, never from the middle: an older one
// could say of an activation what a deleted one had put right. A few
// activations that wait for long must not keep all files after theirs: when the
// files are twice as large and more as what is needed of them, what is needed of
// the oldest is written anew.
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

// keep is the keeper.
func (j *Journal) keep() {
	for {
		select {
		case <-j.wake:
		case <-j.quit:
			return
		}
		for j.shorten() {
		}
	}
}

// shorten deletes the oldest file if it can. It tells whether there may be more
// to do.
func (j *Journal) shorten() bool {
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
	case needed:
		if !j.rewrite(n) {
			return false
		}
	}
	if err := j.log.Drop(n); err != nil {
		j.cfg.Log.Error("a file of the journal stays", "error", err)
	}
	return true
}

// rewrite appends what is needed of a file, and tells whether all of that is
// safe.
func (j *Journal) rewrite(n wal.Segment) bool {
	if _, err := j.log.Trouble(); err != nil {
		return false
	}
	var last wal.Receipt
	any := false
	for _, k := range j.neededOf(n) {
		if r, wrote := j.copyForward(k, n); wrote {
			last, any = r, true
		}
	}
	if !any {
		return true
	}
	return last.Kept() == nil && j.log.Sync() == nil
}

func (j *Journal) neededOf(n wal.Segment) []key {
	j.mu.Lock()
	defer j.mu.Unlock()
	var keys []key
	for k, e := range j.known.All() {
		if e.at == n || e.message.Segment == n || e.owes && j.owed.Get(k).Segment == n {
			keys = append(keys, k)
		}
	}
	return keys
}

// copyForward writes one activation anew unless it has left the file by itself.
func (j *Journal) copyForward(k key, n wal.Segment) (r wal.Receipt, wrote bool) {
	r, wrote = j.copyEnding(k, n) // its message may lie there, too
	j.mu.Lock()
	var at wal.Place
	if e := j.known.Get(k); e != nil && e.message.Segment == n {
		at = e.message
	}
	j.mu.Unlock()
	var message []byte
	if at.Size > 0 {
		payload, err := j.log.Read(at)
		if err == nil {
			_, _, message, _ = decode(payload)
		}
		if message == nil {
			j.cfg.Log.Error("a parked message cannot be read and is forgotten", "activation", k.id(), "error", err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known.Get(k)
	switch {
	case e == nil:
		return r, wrote
	case at.Size > 0 && e.message == at:
		j.dropMessage(e)
		if message != nil {
			return j.keepMessage(k, e, message), true
		}
	}
	if e.at == n {
		return j.step(k, e), true
	}
	return r, wrote
}
