package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// Unfinished is an unfinished activation of an earlier process whose message the journal
// has.
type Unfinished struct {
	ID        activation.ID
	Partition int
	Offset    int64
	History   History
}

// Unfinished lists the unfinished activations of an earlier process whose messages the
// journal has, by offset. It is called once, before anything is written.
func (j *Journal) Unfinished() []Unfinished {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []Unfinished
	for k, e := range j.known {
		if e.has(message) && e.state != Completed {
			all = append(all, Unfinished{k.id(), int(e.partition), e.offset, e.history()})
		}
	}
	slices.SortFunc(all, func(a, b Unfinished) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// LoadUnfinished returns the message of an activation that Unfinished listed, once. From
// then on Kafka's copy of the message is dropped. The error is ErrNoMessage if Kafka's copy
// came first. If the message cannot be read, Kafka's copy counts if there is one; a damaged
// message is forgotten.
func (j *Journal) LoadUnfinished(id activation.ID) (text []byte, past History, err error) {
	text, err = j.Message(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known[keyOf(id)]
	switch {
	case e == nil || !e.former || !e.has(message) || e.state == Completed:
		return nil, past, fmt.Errorf("message of %s: %w", id, ErrNoMessage)
	case err == nil:
		e.former, e.taken = false, true
		return text, e.history(), nil
	case errors.Is(err, wal.ErrDamaged):
		j.dropPayload(e, message)
	}
	return nil, past, err
}

// AppendMessage stores the message of an accepted activation. The scheduler
// keeps no copy. It returns when the message is written. Like Begin it does not wait for a sync.
func (j *Journal) AppendMessage(id activation.ID, text []byte) error {
	k := keyOf(id)
	r, err := j.appendMessage(k, text)
	if err == nil {
		err = r.Wait()
	}
	if err != nil {
		return fmt.Errorf("store message of %s: %w", id, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.known[k]; e != nil {
		e.taken = true
	}
	return nil
}

// appendMessage appends one message, unless that was done before.
func (j *Journal) appendMessage(k key, text []byte) (r wal.PendingWrite, err error) {
	if _, err := j.log.Err(); err != nil {
		return r, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.known[k]
	switch {
	case e == nil || e.state == Completed || len(text) == 0:
		return r, errNotOpen
	case e.has(message):
		return j.log.Appended(), nil
	case j.live+int64(len(text)) > j.cfg.Bytes:
		return r, fmt.Errorf("%w: it may take %d bytes", errFull, j.cfg.Bytes)
	}
	return j.writePayload(k, e, message, text), nil
}

// Full reports whether half of the files is needed. Then no more activations are fetched.
// The other half is for fetches that are under way.
func (j *Journal) Full() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.full()
}

func (j *Journal) full() bool { return j.live*slackFactor >= j.cfg.Bytes }

// Space waits until the disk works and the journal is not full.
func (j *Journal) Space(ctx context.Context) error {
	if err := j.log.Ready(ctx); err != nil {
		return err
	}
	for {
		j.mu.Lock()
		if !j.full() {
			j.mu.Unlock()
			return nil
		}
		if j.space == nil {
			j.space = make(chan struct{})
		}
		space := j.space
		j.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// KeepUnacknowledged stores the results of activations whose acks or records are not safe.
// The next process delivers the results, unless Completed is called. A new result of an
// activation replaces the stored result. It returns when the results are written, or at
// once if the disk is in trouble, and writes them later. It returns an error for each result
// that it will not write.
func (j *Journal) KeepUnacknowledged(ids []activation.ID, results [][]byte) []error {
	errs := make([]error, len(ids))
	var last wal.PendingWrite
	j.mu.Lock()
	for i, id := range ids {
		k := keyOf(id)
		e := j.known[k]
		switch {
		case e == nil || e.state == Completed || len(results[i]) == 0:
			errs[i] = fmt.Errorf("keep the result of %s: %w", id, errNotOpen)
		case j.live+int64(len(results[i])) > j.cfg.Bytes:
			errs[i] = fmt.Errorf("keep the result of %s: %w: it may take %d bytes", id, errFull, j.cfg.Bytes)
		default:
			last = j.writePayload(k, e, result, results[i])
		}
	}
	j.mu.Unlock()
	_ = last.Wait() // Health reports the trouble
	return errs
}

// Message reads the message of an activation whose History has HasMessage.
func (j *Journal) Message(id activation.ID) ([]byte, error) {
	text, err := j.payload(keyOf(id), message, ErrNoMessage)
	if err != nil {
		return nil, fmt.Errorf("message of %s: %w", id, err)
	}
	return text, nil
}

// Result reads the result of an activation whose History is Unacknowledged.
func (j *Journal) Result(id activation.ID) ([]byte, error) {
	text, err := j.payload(keyOf(id), result, errNoResult)
	if err != nil {
		return nil, fmt.Errorf("result of %s: %w", id, err)
	}
	return text, nil
}

// payload reads a payload, also while the compactor moves it.
func (j *Journal) payload(k key, kind payloadKind, missing error) ([]byte, error) {
	for at := j.position(k, kind); ; {
		if at.Size == 0 {
			return nil, missing
		}
		text, err := j.read(at, kind)
		if err == nil {
			return text, nil
		}
		now := j.position(k, kind)
		if now == at {
			return nil, err
		}
		at = now
	}
}

// position returns the position of a payload, or a position of size 0.
func (j *Journal) position(k key, kind payloadKind) wal.Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.known[k]; e != nil {
		return e.payloads[kind]
	}
	return wal.Position{}
}

func (j *Journal) read(at wal.Position, kind payloadKind) ([]byte, error) {
	data, err := j.log.Read(at)
	if err != nil {
		return nil, err
	}
	_, _, found, text, ok := decode(data)
	if !ok || text == nil || found != kind {
		return nil, wal.ErrDamaged
	}
	return text, nil
}

// BeginHandback is called before an activation is given to another invoker, or back to its
// scheduler. It returns when that is written. For the next process the activation counts as
// started, until AbortHandback or CommitHandback.
func (j *Journal) BeginHandback(id activation.ID) error {
	k := keyOf(id)
	j.mu.Lock()
	e := j.known[k]
	if e == nil || e.state != Accepted {
		j.mu.Unlock()
		return fmt.Errorf("offer activation %s: %w", id, errNotOpen)
	}
	e.offered = true
	r := j.writeState(k, e)
	j.mu.Unlock()
	if err := r.Wait(); err != nil {
		j.AbortHandback(id)
		return fmt.Errorf("offer activation %s: %w", id, err)
	}
	return nil
}

// AbortHandback ends a hand-back: the activation is here.
func (j *Journal) AbortHandback(id activation.ID) {
	k := keyOf(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.known[k]; e != nil && e.offered {
		e.offered = false
		j.writeState(k, e)
	}
}

// CommitHandback ends a hand-back: the activation is elsewhere. The journal forgets the
// activation, because it may come again. It returns when that is written.
func (j *Journal) CommitHandback(id activation.ID) error {
	k := keyOf(id)
	j.mu.Lock()
	e := j.known[k]
	if e == nil {
		j.mu.Unlock()
		return nil
	}
	gone := *e
	gone.state, gone.offered = returned, false
	// No reference keeps the file of this entry: the files with older entries go first.
	r := j.log.Append(encode(nil, k, &gone, 0), nil)
	j.forget(k, e)
	j.mu.Unlock()
	if err := r.Wait(); err != nil {
		return fmt.Errorf("forget activation %s: %w", id, err)
	}
	return nil
}
