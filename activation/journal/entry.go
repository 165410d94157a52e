package journal

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/wal"
)

// An entry of the log says all there is to know of its activation, so that the
// newest is enough:
//
//	state                1 byte, with parkedBit where the message follows, and
//	                     with owedBit where what it ended with does
//	activation id        16 bytes
//	starts               1 byte: lives that it runs or ran in, orderly ends aside
//	partition, offset    varints
//	message, or ending   the rest
const (
	parkedBit = 0x80
	owedBit   = 0x40
	// stepBytes is about what an entry without a message takes on disk.
	stepBytes = 40
)

func encode(dst []byte, k key, e *entry, follows byte) []byte {
	dst = append(append(append(dst, byte(e.state)|follows), k[:]...), e.starts)
	dst = binary.AppendUvarint(dst, uint64(e.partition))
	return binary.AppendVarint(dst, e.offset)
}

// decode reads an entry. body is not nil where there is a message, or an ending
// if the entry owes one.
func decode(data []byte) (k key, e entry, body []byte, ok bool) {
	if len(data) < 1+len(k)+1 {
		return k, e, nil, false
	}
	e.state = State(data[0] &^ (parkedBit | owedBit))
	if e.state < Accepted || e.state > Completed {
		return k, e, nil, false
	}
	copy(k[:], data[1:])
	e.starts = data[1+len(k)]
	rest := data[2+len(k):]
	partition, n := binary.Uvarint(rest)
	if n <= 0 || partition > 1<<31-1 {
		return k, e, nil, false
	}
	e.partition = int32(partition)
	rest = rest[n:]
	if e.offset, n = binary.Varint(rest); n <= 0 {
		return k, e, nil, false
	}
	rest = rest[n:]
	parked := data[0]&parkedBit != 0
	e.owes = data[0]&owedBit != 0
	switch {
	case parked && e.owes, (parked || e.owes) != (len(rest) > 0):
		return k, e, nil, false
	case len(rest) > 0:
		body = rest
	}
	return k, e, body, true
}

// keyOf packs an id. One that is no id has the zero key, which stands for none.
func keyOf(id activation.ID) (k key) {
	if len(id) != hex.EncodedLen(len(k)) {
		return key{}
	}
	for i := range k {
		k[i] = digit(id[2*i])<<4 | digit(id[2*i+1])
	}
	return k
}

func digit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

func (k key) id() activation.ID { return activation.ID(hex.EncodeToString(k[:])) }

// replay takes one entry of a former process.
func (j *Journal) replay(at wal.Place, payload []byte) {
	k, read, body, ok := decode(payload)
	if !ok {
		j.cfg.Log.Error("an entry of the journal says nothing", "segment", at.Segment, "at", at.At, "bytes", len(payload))
		return
	}
	e := j.known.Get(k)
	if e == nil {
		e = j.slab.Take()
		e.former = true
		j.known.Set(k, e)
	}
	// An entry may come twice, when a file was written anew and not deleted;
	// a state only ever goes up.
	e.offset, e.partition, e.starts = read.offset, read.partition, read.starts
	e.state = max(e.state, read.state)
	j.hold(e, at.Segment)
	switch {
	case e.state == Completed:
		j.dropMessage(e)
		j.dropEnding(k, e)
	case read.owes:
		j.dropEnding(k, e)
		j.setEnding(k, e, at)
	case body != nil:
		j.dropMessage(e)
		j.setMessage(e, at)
	}
}

// step writes the present state of an activation. The caller holds the lock,
// so that the entries of one are in order.
func (j *Journal) step(k key, e *entry) wal.Receipt {
	r := j.log.Append(encode(j.scratch[:0], k, e, 0), nil)
	j.hold(e, r.Place.Segment)
	return r
}

// keepMessage writes the present state with the message.
func (j *Journal) keepMessage(k key, e *entry, message []byte) wal.Receipt {
	r := j.log.Append(encode(j.scratch[:0], k, e, parkedBit), message)
	j.hold(e, r.Place.Segment)
	j.setMessage(e, r.Place)
	return r
}

// hold has the newest step of an activation be in a file.
func (j *Journal) hold(e *entry, at wal.Segment) {
	switch e.at {
	case at:
		return
	case 0:
	default:
		j.release(e.at, stepBytes)
	}
	e.at = at
	j.refs[at]++
	j.live += stepBytes
}

func (j *Journal) setMessage(e *entry, at wal.Place) {
	e.message = at
	j.refs[at.Segment]++
	j.live += int64(at.Size)
	j.bodies += int64(at.Size)
	j.parked++
}

func (j *Journal) dropMessage(e *entry) {
	if e.message.Size == 0 {
		return
	}
	j.release(e.message.Segment, int64(e.message.Size))
	j.bodies -= int64(e.message.Size)
	e.message = wal.Place{}
	j.parked--
}

// release counts one thing less that a file is needed for.
func (j *Journal) release(at wal.Segment, bytes int64) {
	j.live -= bytes
	if j.refs[at]--; j.refs[at] == 0 {
		delete(j.refs, at)
		j.nudge()
	}
}
