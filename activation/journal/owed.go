package journal

import (
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/wal"
)

// Owe keeps what activations ended with, because their acks and their records
// are not safe. The next process tells it, until Completed. It returns when that
// is written, or will be when a disk in trouble takes it again, and tells of each
// whether it is; one that was kept before is replaced.
func (j *Journal) Owe(ids []activation.ID, endings [][]byte) []error {
	errs := make([]error, len(ids))
	var last wal.Receipt
	wrote := false
	for i, id := range ids {
		if r, err := j.owe(keyOf(id), endings[i]); err != nil {
			errs[i] = fmt.Errorf("keep the end of %s: %w", id, err)
		} else {
			last, wrote = r, true
		}
	}
	if wrote { // in order, so the last one tells for all
		_ = last.Kept() // Health has the trouble
	}
	return errs
}

func (j *Journal) owe(k key, ending []byte) (wal.Receipt, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known.Get(k)
	switch {
	case e == nil || e.state == Completed || len(ending) == 0:
		return wal.Receipt{}, ErrNotOpen
	case j.live+int64(len(ending)) > j.cfg.Bytes:
		return wal.Receipt{}, fmt.Errorf("%w: it may take %d bytes", ErrFull, j.cfg.Bytes)
	}
	return j.keepEnding(k, e, ending), nil
}

// Owed gives what an activation ended with of which Past says that it is owed.
func (j *Journal) Owed(id activation.ID) ([]byte, error) {
	k := keyOf(id)
	for {
		j.mu.Lock()
		at := j.owed.Get(k)
		j.mu.Unlock()
		ending, err := j.ending(at)
		if err == nil {
			return ending, nil
		}
		j.mu.Lock()
		moved := j.owed.Get(k) != at
		j.mu.Unlock()
		if !moved { // the keeper has not written it anew meanwhile
			return nil, fmt.Errorf("end of %s: %w", id, err)
		}
	}
}

func (j *Journal) ending(at wal.Place) ([]byte, error) {
	if at.Size == 0 {
		return nil, ErrNotOwed
	}
	payload, err := j.log.Read(at)
	if err != nil {
		return nil, err
	}
	_, e, ending, ok := decode(payload)
	if !ok || !e.owes {
		return nil, wal.ErrDamaged
	}
	return ending, nil
}

// keepEnding writes the present state with what it ended with.
func (j *Journal) keepEnding(k key, e *entry, ending []byte) wal.Receipt {
	j.dropEnding(k, e)
	r := j.log.Append(encode(j.scratch[:0], k, e, owedBit), ending)
	j.hold(e, r.Place.Segment)
	j.setEnding(k, e, r.Place)
	return r
}

func (j *Journal) setEnding(k key, e *entry, at wal.Place) {
	e.owes = true
	j.owed.Set(k, at)
	j.refs[at.Segment]++
	j.live += int64(at.Size)
}

func (j *Journal) dropEnding(k key, e *entry) {
	if !e.owes {
		return
	}
	at := j.owed.Get(k)
	e.owes = false
	j.owed.Delete(k)
	j.release(at.Segment, int64(at.Size))
}

// copyEnding writes what an activation ended with anew, if it lies in a file.
func (j *Journal) copyEnding(k key, n wal.Segment) (r wal.Receipt, wrote bool) {
	j.mu.Lock()
	at := j.owed.Get(k)
	j.mu.Unlock()
	if at.Size == 0 || at.Segment != n {
		return r, false
	}
	ending, err := j.ending(at)
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known.Get(k)
	switch {
	case e == nil || j.owed.Get(k) != at:
		return r, false
	case err != nil:
		j.cfg.Log.Error("what an activation ended with cannot be read and is forgotten", "activation", k.id(), "error", err)
		j.dropEnding(k, e)
		return r, false
	}
	return j.keepEnding(k, e, ending), true
}
