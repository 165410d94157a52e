package journal

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/wal"
)

// Left is an activation that a former process left unfinished and whose
// message the journal has.
type Left struct {
	ID        activation.ID
	Partition int
	Offset    int64
	Past      Past
}

// Left lists what a former process left unfinished with its message, in the
// order of the places on the topic. It is asked once, before anything is
// written.
func (j *Journal) Left() []Left {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []Left
	for k, e := range j.known.All() {
		if e.message.Size > 0 && e.state != Completed {
			all = append(all, Left{k.id(), int(e.partition), e.offset, e.past()})
		}
	}
	slices.SortFunc(all, func(a, b Left) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Take gives the message of an activation that Left listed, once. Whoever has
// it works on it: Kafka's copy, should it come, is of no use from then on. Its
// error is ErrNotParked where Kafka's copy came first. A message that cannot be
// read is forgotten, so that Kafka's copy counts, if there is one.
func (j *Journal) Take(id activation.ID) (message []byte, past Past, err error) {
	k := keyOf(id)
	j.mu.Lock()
	e := j.known.Get(k)
	if e == nil || !e.former || e.message.Size == 0 || e.state == Completed {
		j.mu.Unlock()
		return nil, past, fmt.Errorf("message of %s: %w", id, ErrNotParked)
	}
	e.former, e.taken = false, true
	past = e.past()
	j.mu.Unlock()
	if message, err = j.Message(id); err == nil {
		return message, past, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e.former, e.taken = true, false
	j.dropMessage(e)
	return nil, past, err
}

// Park stores the messages of accepted activations, so that they need not be in
// memory and outlive Kafka's copies. It returns when they survive what the
// journal survives, a loss of power included unless nothing is ever synced, and
// tells of each. One with an error is not stored, and whoever called keeps it:
// the journal is full, or its disk does not take it.
func (j *Journal) Park(ids []activation.ID, messages [][]byte) []error {
	errs := make([]error, len(ids))
	var last wal.Receipt
	wrote := false
	for i, id := range ids {
		r, appended, err := j.park(keyOf(id), messages[i])
		if err != nil {
			errs[i] = fmt.Errorf("park message of %s: %w", id, err)
		}
		if appended {
			last, wrote = r, true
		}
	}
	// They are written in order, so the last one tells for all.
	var trouble error
	if wrote {
		trouble = last.Kept()
	}
	if trouble == nil {
		trouble = j.log.Sync()
	}
	for i, id := range ids {
		switch {
		case errs[i] != nil:
		case trouble != nil:
			errs[i] = fmt.Errorf("park message of %s: %w", id, trouble)
		default:
			j.take(keyOf(id))
		}
	}
	return errs
}

func (j *Journal) park(k key, message []byte) (r wal.Receipt, appended bool, err error) {
	if _, err := j.log.Trouble(); err != nil {
		return r, false, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known.Get(k)
	switch {
	case e == nil || e.state == Completed || len(message) == 0:
		return r, false, ErrNotOpen
	case e.message.Size > 0:
		return r, false, nil
	case (j.live+int64(len(message)))*slackFactor > j.cfg.Bytes:
		return r, false, fmt.Errorf("%w: it may take %d bytes", ErrFull, j.cfg.Bytes)
	}
	return j.keepMessage(k, e, message), true, nil
}

// take notes that a message is the journal's from here on.
func (j *Journal) take(k key) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.known.Get(k); e != nil {
		e.taken = true
	}
}

// Message reads the message of a parked activation.
func (j *Journal) Message(id activation.ID) ([]byte, error) {
	k := keyOf(id)
	for {
		j.mu.Lock()
		var at wal.Place
		if e := j.known.Get(k); e != nil {
			at = e.message
		}
		j.mu.Unlock()
		if at.Size == 0 {
			return nil, fmt.Errorf("message of %s: %w", id, ErrNotParked)
		}
		payload, err := j.log.Read(at)
		if err == nil {
			_, _, message, ok := decode(payload)
			if ok && message != nil {
				return message, nil
			}
			err = wal.ErrDamaged
		}
		if j.moved(k, at) {
			continue // the keeper has written it anew meanwhile
		}
		return nil, fmt.Errorf("message of %s: %w", id, err)
	}
}

func (j *Journal) moved(k key, at wal.Place) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known.Get(k)
	return e != nil && e.message.Size > 0 && e.message != at
}
