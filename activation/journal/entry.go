package journal

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// payloadKind is a kind of data that is stored beside the state of an activation.
type payloadKind uint8

const (
	message      payloadKind = iota
	result                   // the record of a run whose acks or record may be missing
	payloadKinds = iota
)

// An entry of the log has the whole state of its activation, so that the newest entry is
// enough:
//
//	state                1 byte, with messageBit or resultBit where a payload follows,
//	                     and offeredBit where another may have it
//	activation id        16 bytes
//	starts               1 byte: processes that it runs in, or ran in when they crashed
//	partition, offset    varints
//	payload              the rest
const (
	messageBit = 0x80
	resultBit  = 0x40
	offeredBit = 0x20
	// stateBytes is the approximate size on disk of an entry without a payload.
	stateBytes = 40
)

var payloadBits = [payloadKinds]byte{message: messageBit, result: resultBit}

func encode(dst []byte, k key, e *entry, bit byte) []byte {
	if e.offered {
		bit |= offeredBit
	}
	dst = append(append(append(dst, byte(e.state)|bit), k[:]...), e.starts)
	dst = binary.AppendUvarint(dst, uint64(e.partition))
	return binary.AppendVarint(dst, e.offset)
}

// decode reads an entry; payload is nil where there is none.
func decode(data []byte) (k key, e entry, kind payloadKind, payload []byte, ok bool) {
	if len(data) < 1+len(k)+1 {
		return k, e, 0, nil, false
	}
	bits := data[0] & (messageBit | resultBit)
	e.offered = data[0]&offeredBit != 0
	e.state = State(data[0] &^ (messageBit | resultBit | offeredBit))
	if e.state < Accepted || e.state > returned || bits == messageBit|resultBit {
		return k, e, 0, nil, false
	}
	copy(k[:], data[1:])
	e.starts = data[1+len(k)]
	rest := data[2+len(k):]
	partition, n := binary.Uvarint(rest)
	if n <= 0 || partition > 1<<31-1 {
		return k, e, 0, nil, false
	}
	e.partition = int32(partition)
	rest = rest[n:]
	if e.offset, n = binary.Varint(rest); n <= 0 {
		return k, e, 0, nil, false
	}
	rest = rest[n:]
	if (bits != 0) != (len(rest) > 0) {
		return k, e, 0, nil, false
	}
	switch bits {
	case messageBit:
		return k, e, message, rest, true
	case resultBit:
		return k, e, result, rest, true
	}
	return k, e, 0, nil, true
}

// keyOf packs an id. It returns the zero key for a text that is no id.
func keyOf(id activation.ID) (k key) {
	if len(id) != hex.EncodedLen(len(k)) {
		return key{}
	}
	if _, err := hex.Decode(k[:], []byte(id)); err != nil {
		return key{}
	}
	return k
}

func (k key) id() activation.ID { return activation.ID(hex.EncodeToString(k[:])) }

// replay applies one entry of a former process.
func (j *Journal) replay(at wal.Position, data []byte) {
	k, read, kind, payload, ok := decode(data)
	if !ok {
		j.cfg.Log.Error("an entry of the journal is not understood", "segment", at.Segment, "offset", at.Offset, "bytes", len(data))
		return
	}
	e := j.known[k]
	if read.state == returned {
		if e != nil {
			j.forget(k, e)
		}
		return
	}
	if e == nil {
		e = &entry{former: true}
		j.known[k] = e
	}
	// An entry may come twice, when a file was rewritten and not deleted; a state
	// only ever goes up.
	e.offset, e.partition, e.starts = read.offset, read.partition, read.starts
	e.state, e.offered = max(e.state, read.state), read.offered
	j.setSegment(e, at.Segment)
	switch {
	case e.state == Completed:
		j.dropPayloads(e)
	case payload != nil:
		j.setPayload(e, kind, at)
	}
}

// writeState writes the present state of an activation. The caller holds mu, so
// that the entries of one activation are in order.
func (j *Journal) writeState(k key, e *entry) wal.PendingWrite {
	var scratch [stateBytes]byte
	r := j.log.Append(encode(scratch[:0], k, e, 0), nil)
	j.setSegment(e, r.Position.Segment)
	return r
}

// writePayload writes the present state with a payload, which replaces a former
// one. The caller holds mu.
func (j *Journal) writePayload(k key, e *entry, kind payloadKind, payload []byte) wal.PendingWrite {
	var scratch [stateBytes]byte
	r := j.log.Append(encode(scratch[:0], k, e, payloadBits[kind]), payload)
	j.setSegment(e, r.Position.Segment)
	j.setPayload(e, kind, r.Position)
	return r
}

// setSegment records which file has the newest state of an activation.
func (j *Journal) setSegment(e *entry, at wal.Segment) {
	if e.at == at {
		return
	}
	if e.at != 0 {
		j.release(e.at, stateBytes)
	}
	e.at = at
	j.refs[at]++
	j.live += stateBytes
}

// setPayload records where a payload is.
func (j *Journal) setPayload(e *entry, kind payloadKind, at wal.Position) {
	j.dropPayload(e, kind)
	e.payloads[kind] = at
	j.refs[at.Segment]++
	j.live += int64(at.Size)
	j.bytes[kind] += int64(at.Size)
	j.counts[kind]++
}

func (j *Journal) dropPayload(e *entry, kind payloadKind) {
	if !e.has(kind) {
		return
	}
	at := e.payloads[kind]
	e.payloads[kind] = wal.Position{}
	j.bytes[kind] -= int64(at.Size)
	j.counts[kind]--
	j.release(at.Segment, int64(at.Size))
}

func (j *Journal) dropPayloads(e *entry) {
	j.dropPayload(e, message)
	j.dropPayload(e, result)
}

// release lowers the number of entries and payloads for which a file is kept.
func (j *Journal) release(at wal.Segment, bytes int64) {
	j.live -= bytes
	if j.space != nil && !j.full() {
		close(j.space)
		j.space = nil
	}
	if j.refs[at]--; j.refs[at] == 0 {
		delete(j.refs, at)
		j.nudge()
	}
}

// forget ends an entry. The caller holds mu, or replays.
func (j *Journal) forget(k key, e *entry) {
	j.dropPayloads(e)
	if e.at != 0 {
		j.release(e.at, stateBytes)
	}
	delete(j.known, k)
}
