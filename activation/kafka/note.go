package kafka

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
)

// note is what a commit says beside the position, in the metadata that Kafka
// keeps with it: which offsets above are finished, which of the others had
// begun to run, and what was read last. Whoever does not know it, such as the
// original, resumes at the position.
//
// Its text is base64 of: a byte for the version, four for a CRC-32C over
// version, position and the rest, and then bits, see write.
type note struct {
	done  []span // rising, above the position, with gaps between them
	tried []try  // rising, none of them done
	last  mark
}

// try is an offset whose activation had begun to run and has not ended.
type try struct {
	offset   int64
	attempts int  // runs that ended with the process
	begun    bool // an earlier process had begun to run it
	here     bool // this process has; a note tells it as one attempt more
}

// mark tells one log from another: a log that has another record at the offset,
// or none, is not the one that was read.
type mark struct {
	offset int64
	sum    uint32 // of the record's value
	newest int64  // Unix ms: the latest time of all records up to the offset
	ok     bool   // there is one
}

const (
	noteVersion = 1
	noteHead    = 5 // bytes before the bits
	// noteChars is offset.metadata.max.bytes as brokers have it by default.
	noteChars = 4096
	// maxWindow bounds the memory that a note can ask for: a bit per offset.
	maxWindow = 1 << 24
	// maxAttempts is counted to; whoever asks gives up long before.
	maxAttempts = 1 << 10
)

var (
	errNoteForeign = errors.New("not written by this program, or damaged")
	errNoteNewer   = errors.New("written by a newer version of this program")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// noteBits is how many bits fit into so many characters.
func noteBits(chars int) int {
	return 8 * max(0, base64.RawURLEncoding.DecodedLen(chars)-noteHead)
}

// encode writes a note for a position into at most so many characters. What
// does not fit is left out, from the end: whole is false then, and empty is all
// there is for a limit that takes nothing.
func (n *note) encode(position int64, chars int) (text string, whole bool) {
	w := bitWriter{buf: make([]byte, noteHead, 64)}
	whole = n.write(&w, position, noteBits(chars))
	if noteBits(chars) < w.len()-8*noteHead {
		return "", false
	}
	w.buf[0] = noteVersion
	binary.BigEndian.PutUint32(w.buf[1:], noteSum(w.buf, position))
	return base64.RawURLEncoding.EncodeToString(w.buf), whole
}

func noteSum(b []byte, position int64) uint32 {
	var head [9]byte
	head[0] = b[0]
	binary.BigEndian.PutUint64(head[1:], uint64(position))
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, b[noteHead:])
}

// write puts the mark, then the tries, then the runs of finished offsets. Each
// list has its length in front; each offset is told by its distance from where
// the one before it ended.
func (n *note) write(w *bitWriter, position int64, room int) (whole bool) {
	start := w.len()
	left := func() int { return room - (w.len() - start) }
	if d := n.last.offset - position; n.last.ok && d > -maxWindow && d < maxWindow {
		w.put(1, 1)
		w.gamma(zigzag(n.last.offset-position) + 1)
		w.put(uint64(n.last.sum), 32)
		w.put(uint64(n.last.newest), 64)
	} else {
		w.put(0, 1)
	}
	// A list's length goes before it, so how much fits is counted first.
	count, fits := 0, left()-gammaBits(maxWindow)
	for at := position; count < len(n.tried); count++ {
		t := n.tried[count]
		if fits -= t.bits(at); fits < 0 {
			break
		}
		at = t.offset + 1
	}
	whole = count == len(n.tried)
	w.gamma(uint64(count) + 1)
	at := position
	for _, t := range n.tried[:count] {
		w.gamma(uint64(t.offset-at) + 1)
		w.gamma(t.word())
		at = t.offset + 1
	}
	return n.writeDone(w, position, left()) && whole
}

func (n *note) writeDone(w *bitWriter, position int64, room int) (whole bool) {
	count, fits := 0, room-gammaBits(maxWindow)
	for at := position; count < len(n.done); count++ {
		s := n.done[count]
		if fits -= gammaBits(uint64(s.from-at)) + gammaBits(uint64(s.end-s.from)); fits < 0 || s.end-position > maxWindow {
			break
		}
		at = s.end
	}
	w.gamma(uint64(count) + 1)
	at := position
	for _, s := range n.done[:count] {
		w.gamma(uint64(s.from - at))
		w.gamma(uint64(s.end - s.from))
		at = s.end
	}
	return count == len(n.done)
}

func (t try) bits(at int64) int { return gammaBits(uint64(t.offset-at)+1) + gammaBits(t.word()) }

// word is how often and whether at all, in one number that is not 0.
func (t try) word() uint64 {
	v := uint64(min(t.attempts, maxAttempts)) << 1
	if t.begun {
		v |= 1
	}
	return v + 1
}

// decodeNote reads the metadata of a position. Its error says why it is not one
// of ours; the position then stands alone.
func decodeNote(text string, position int64) (note, error) {
	if text == "" {
		return note{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < noteHead {
		return note{}, errNoteForeign
	}
	if noteSum(b, position) != binary.BigEndian.Uint32(b[1:]) {
		return note{}, errNoteForeign
	}
	if b[0] != noteVersion {
		return note{}, fmt.Errorf("%w (format %d, this one knows %d)", errNoteNewer, b[0], noteVersion)
	}
	r := bitReader{buf: b[noteHead:]}
	n, ok := readNote(&r, position)
	if !ok || r.short {
		return note{}, errNoteForeign
	}
	return n, nil
}

func readNote(r *bitReader, position int64) (n note, ok bool) {
	if r.take(1) == 1 {
		distance := unzigzag(r.gamma() - 1)
		if distance <= -maxWindow || distance >= maxWindow {
			return note{}, false
		}
		n.last.offset = position + distance
		n.last.sum = uint32(r.take(32))
		n.last.newest = int64(r.take(64))
		n.last.ok = true
	}
	// Distances are bounded by what an encoder may write, so that sums do not
	// overflow and the memory stays small.
	at := position
	for range count(r) {
		gap, word := r.gamma()-1, r.gamma()-1
		if r.short || gap > maxWindow || word > 2*maxAttempts+1 {
			return note{}, false
		}
		at += int64(gap)
		n.tried = append(n.tried, try{offset: at, attempts: int(word >> 1), begun: word&1 == 1})
		at++
	}
	at = position
	for range count(r) {
		gap, length := r.gamma(), r.gamma()
		if r.short || gap > maxWindow || length > maxWindow {
			return note{}, false
		}
		s := span{from: at + int64(gap)}
		s.end = s.from + int64(length)
		if s.end-position > maxWindow {
			return note{}, false
		}
		n.done = append(n.done, s)
		at = s.end
	}
	return n, position >= 0 && position < math.MaxInt64-2*maxWindow
}

// count reads the length of a list, never more than bits are left for.
func count(r *bitReader) int {
	n := r.gamma() - 1
	if r.short || n > uint64(8*len(r.buf)) {
		r.short = true
		return 0
	}
	return int(n)
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// noteFits tells whether a note of open offsets in a window surely fits into
// so many bits, in whatever order they finish. Most bits are needed when the
// finished lie in as many runs of one length as there are open ones between
// them, and each of these has been tried.
func noteFits(open, window int64, room int) bool {
	if open <= 0 {
		return true
	}
	if window > maxWindow {
		return false
	}
	run := 2*bits.Len64(uint64(window/open)) + 1
	each := 1 + run + run + 7
	return open*int64(each)+256 <= int64(room)
}
