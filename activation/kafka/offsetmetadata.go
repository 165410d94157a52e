package kafka

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"sort"
)

// offsetMetadata is what a commit holds beside its offset, in the metadata that
// Kafka keeps with that: which offsets above are finished, which of the others had
// begun to run, and what was read last. A program that does not read it, such as
// the original, resumes at the offset.
//
// Its text is base64 of: a byte for the version, four for a CRC-32C over
// version, offset and the rest, and then bits, see write.
type offsetMetadata struct {
	done  []offsetRange // rising, above the committed offset, with gaps between them
	tried []attempt     // rising, none of them done
	last  lastRecord
}

// attempt is an offset whose activation has not ended, and how often it had begun
// to run.
type attempt struct {
	offset   int64
	attempts int  // runs that ended with the process
	begun    bool // an earlier process had begun to run it
	here     bool // this process has, which the metadata has as one attempt more
}

// lastRecord distinguishes one log from another: a log that has another record at the offset,
// or none, is not the one that was read.
type lastRecord struct {
	offset int64
	sum    uint32 // of the record's value
	newest int64  // Unix ms: the latest time of all records up to the offset
	ok     bool   // there is one
}

const (
	metadataVersion = 1
	metadataHead    = 5 // bytes before the bits
	// metadataChars is offset.metadata.max.bytes as brokers have it by default.
	metadataChars = 4096
	// maxWindow bounds the memory that metadata can ask for: a bit per offset.
	maxWindow = 1 << 24
	// maxAttempts is counted to; an activation is given up long before.
	maxAttempts = 1 << 10
)

var (
	errMetadataForeign = errors.New("not written by this program, or damaged")
	errMetadataNewer   = errors.New("written by a newer version of this program")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// metadataBits is how many bits fit into so many characters.
func metadataBits(chars int) int {
	return 8 * max(0, base64.RawURLEncoding.DecodedLen(chars)-metadataHead)
}

// encode writes the metadata of an offset into at most so many characters. What
// does not fit is left out, from the end: whole is false then, and empty is all
// there is for a limit that takes nothing.
func (n *offsetMetadata) encode(committed int64, chars int) (text string, whole bool) {
	done := n.done[:sort.Search(len(n.done), func(i int) bool { return n.done[i].end-committed > maxWindow })]
	count := len(n.tried) + len(done)
	b := n.write(committed, count)
	if limit := base64.RawURLEncoding.DecodedLen(chars); len(b) > limit {
		over := sort.Search(count, func(i int) bool { return len(n.write(committed, i)) > limit })
		if over == 0 {
			return "", false
		}
		count = over - 1
		b = n.write(committed, count)
	}
	b[0] = metadataVersion
	binary.BigEndian.PutUint32(b[1:], metadataSum(b, committed))
	return base64.RawURLEncoding.EncodeToString(b), count == len(n.tried)+len(n.done)
}

func metadataSum(b []byte, committed int64) uint32 {
	var head [9]byte
	head[0] = b[0]
	binary.BigEndian.PutUint64(head[1:], uint64(committed))
	return crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, b[metadataHead:])
}

// write puts the last record, then the attempts, then the runs of finished
// offsets, of both lists together so many entries. Each list has its length in
// front; each offset is a distance from where the one before it ended.
func (n *offsetMetadata) write(committed int64, count int) []byte {
	w := bitWriter{buf: make([]byte, metadataHead, 64)}
	if d := n.last.offset - committed; n.last.ok && d > -maxWindow && d < maxWindow {
		w.put(1, 1)
		w.gamma(zigzag(d) + 1)
		w.put(uint64(n.last.sum), 32)
		w.put(uint64(n.last.newest), 64)
	} else {
		w.put(0, 1)
	}
	tried := n.tried[:min(count, len(n.tried))]
	w.gamma(uint64(len(tried)) + 1)
	at := committed
	for _, t := range tried {
		w.gamma(uint64(t.offset-at) + 1)
		w.gamma(t.word())
		at = t.offset + 1
	}
	done := n.done[:count-len(tried)]
	w.gamma(uint64(len(done)) + 1)
	at = committed
	for _, s := range done {
		w.gamma(uint64(s.from - at))
		w.gamma(uint64(s.end - s.from))
		at = s.end
	}
	return w.buf
}

// tried reports whether the activation has begun to run, here or before.
func (t *attempt) tried() bool { return t.begun || t.here || t.attempts > 0 }

// word packs attempts and begun into one number that is not 0.
func (t attempt) word() uint64 {
	v := uint64(min(t.attempts, maxAttempts)) << 1
	if t.begun {
		v |= 1
	}
	return v + 1
}

// decodeOffsetMetadata reads the metadata of an offset. Its error is why it is not
// ours; the offset then counts alone.
func decodeOffsetMetadata(text string, committed int64) (offsetMetadata, error) {
	if text == "" {
		return offsetMetadata{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < metadataHead {
		return offsetMetadata{}, errMetadataForeign
	}
	if metadataSum(b, committed) != binary.BigEndian.Uint32(b[1:]) {
		return offsetMetadata{}, errMetadataForeign
	}
	if b[0] != metadataVersion {
		return offsetMetadata{}, fmt.Errorf("%w (format %d, this one knows %d)", errMetadataNewer, b[0], metadataVersion)
	}
	r := bitReader{buf: b[metadataHead:]}
	n, ok := readMetadata(&r, committed)
	if !ok || r.short {
		return offsetMetadata{}, errMetadataForeign
	}
	return n, nil
}

func readMetadata(r *bitReader, committed int64) (n offsetMetadata, ok bool) {
	if r.take(1) == 1 {
		distance := unzigzag(r.gamma() - 1)
		if distance <= -maxWindow || distance >= maxWindow {
			return offsetMetadata{}, false
		}
		n.last.offset = committed + distance
		n.last.sum = uint32(r.take(32))
		n.last.newest = int64(r.take(64))
		n.last.ok = true
	}
	// Distances are bounded by what an encoder may write, so that sums do not
	// overflow and the memory stays small.
	at := committed
	for range count(r) {
		gap, word := r.gamma()-1, r.gamma()-1
		if r.short || gap > maxWindow || word > 2*maxAttempts+1 {
			return offsetMetadata{}, false
		}
		at += int64(gap)
		n.tried = append(n.tried, attempt{offset: at, attempts: int(word >> 1), begun: word&1 == 1})
		at++
	}
	at = committed
	for range count(r) {
		gap, length := r.gamma(), r.gamma()
		if r.short || gap > maxWindow || length > maxWindow {
			return offsetMetadata{}, false
		}
		s := offsetRange{from: at + int64(gap)}
		s.end = s.from + int64(length)
		if s.end-committed > maxWindow {
			return offsetMetadata{}, false
		}
		n.done = append(n.done, s)
		at = s.end
	}
	return n, committed >= 0 && committed < math.MaxInt64-2*maxWindow
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

// metadataFits reports whether the metadata of open offsets in a window surely fits into
// so many bits, in whatever order they finish. Most bits are needed when the
// finished lie in as many runs of one length as there are open ones between
// them, and each of these has been tried.
func metadataFits(open, window int64, limit int) bool {
	if open <= 0 {
		return true
	}
	if window > maxWindow {
		return false
	}
	run := 2*bits.Len64(uint64(window/open)) + 1
	each := 1 + run + run + 7
	return open*int64(each)+256 <= int64(limit)
}

// bitWriter appends bits, the highest first.
type bitWriter struct {
	buf  []byte
	free int // bits of the last byte that are not used
}

func (w *bitWriter) put(v uint64, n int) {
	for n > 0 {
		if w.free == 0 {
			w.buf, w.free = append(w.buf, 0), 8
		}
		take := min(n, w.free)
		part := v >> (n - take) & (1<<take - 1)
		w.buf[len(w.buf)-1] |= byte(part << (w.free - take))
		w.free -= take
		n -= take
	}
}

// gamma appends v >= 1 in Elias's gamma code: as many zeros as v has bits after
// its first, then v. Small numbers, which most are, take few bits.
func (w *bitWriter) gamma(v uint64) {
	n := bits.Len64(v)
	w.put(0, n-1)
	w.put(v, n)
}

// bitReader takes bits off again. Past the end it gives zeros and is short.
type bitReader struct {
	buf   []byte
	at    int
	short bool
}

func (r *bitReader) take(n int) (v uint64) {
	for n > 0 {
		if r.at/8 >= len(r.buf) {
			r.short = true
			return 0
		}
		left := 8 - r.at%8
		part := min(n, left)
		v = v<<part | uint64(r.buf[r.at/8])>>(left-part)&(1<<part-1)
		r.at += part
		n -= part
	}
	return v
}

// gamma takes a number that bitWriter.gamma put; 0 when there is none.
func (r *bitReader) gamma() uint64 {
	zeros := 0
	for !r.short && r.take(1) == 0 {
		zeros++
	}
	if r.short || zeros > 63 {
		r.short = true
		return 0
	}
	v := uint64(1)<<zeros | r.take(zeros)
	if r.short {
		return 0
	}
	return v
}
