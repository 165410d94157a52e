package kafka

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sort"
)

// offsetMetadata is the metadata of a commit. Kafka stores it with the offset. It names the
// completed offsets above the committed one, the marks of open offsets, and the last record
// read. A program that ignores metadata, such as the original invoker, resumes at the offset.
//
// Its text is the base64 of a version byte, a CRC-32C (four bytes) over version, offset and
// the rest, and varints, see write.
type offsetMetadata struct {
	done   []offsetRange // rising, above the committed offset, with gaps between them
	marked []openOffset  // ascending; no overlap with done
	last   lastRecord
}

const (
	metadataVersion = 2
	metadataHead    = 5  // bytes before the varints
	metadataRest    = 40 // bytes that are neither marks nor ranges, at most
	// metadataChars is the default of brokers for offset.metadata.max.bytes.
	metadataChars = 4096
	// maxWindow bounds how far from the committed offset metadata reaches.
	maxWindow = 1 << 24
	// maxMark is the largest mark, so that a mark takes a byte.
	maxMark = 1<<7 - 1
)

var (
	errMetadataForeign = errors.New("not written by this program, or damaged")
	errMetadataVersion = errors.New("written by another version of this program")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode encodes the metadata of the committed offset in at most chars characters. Entries
// that do not fit are dropped from the end, and whole is then false. The text is empty if even
// the fixed part does not fit.
func (n *offsetMetadata) encode(committed int64, chars int) (text string, whole bool) {
	done := n.done[:sort.Search(len(n.done), func(i int) bool { return n.done[i].end-committed > maxWindow })]
	count := len(n.marked) + len(done)
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
	return base64.RawURLEncoding.EncodeToString(b), count == len(n.marked)+len(n.done)
}

func metadataSum(b []byte, committed int64) uint32 {
	head := binary.BigEndian.AppendUint64([]byte{b[0]}, uint64(committed))
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, b[metadataHead:])
}

// write encodes the last record, then the marks, then the ranges of completed offsets. It
// writes the first count entries of the two lists together. Each list begins with its length.
// Each offset is encoded as its distance from the end of the entry before.
func (n *offsetMetadata) write(committed int64, count int) []byte {
	b := make([]byte, metadataHead, 64)
	if d := n.last.offset - committed; n.last.ok && d > -maxWindow && d < maxWindow {
		b = binary.AppendVarint(append(b, 1), d)
		b = binary.AppendUvarint(b, uint64(n.last.sum))
		b = binary.AppendVarint(b, n.last.newest)
	} else {
		b = append(b, 0)
	}
	marked := n.marked[:min(count, len(n.marked))]
	b = binary.AppendUvarint(b, uint64(len(marked)))
	at := committed
	for _, o := range marked {
		b = binary.AppendUvarint(b, uint64(o.offset-at))
		b = binary.AppendUvarint(b, uint64(o.mark))
		at = o.offset + 1
	}
	done := n.done[:count-len(marked)]
	b = binary.AppendUvarint(b, uint64(len(done)))
	at = committed
	for _, s := range done {
		b = binary.AppendUvarint(b, uint64(s.from-at))
		b = binary.AppendUvarint(b, uint64(s.end-s.from))
		at = s.end
	}
	return b
}

// decodeOffsetMetadata reads the metadata of an offset. It returns an error if this program
// did not write the metadata; then only the offset counts.
func decodeOffsetMetadata(text string, committed int64) (offsetMetadata, error) {
	if text == "" {
		return offsetMetadata{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < metadataHead || committed < 0 || committed >= math.MaxInt64-2*maxWindow {
		return offsetMetadata{}, errMetadataForeign
	}
	if metadataSum(b, committed) != binary.BigEndian.Uint32(b[1:]) {
		return offsetMetadata{}, errMetadataForeign
	}
	if b[0] != metadataVersion {
		return offsetMetadata{}, fmt.Errorf("%w (format %d, this one knows %d)", errMetadataVersion, b[0], metadataVersion)
	}
	r := varints{input: bytes.NewReader(b[metadataHead:])}
	n := r.metadata(committed)
	if r.bad {
		return offsetMetadata{}, errMetadataForeign
	}
	return n, nil
}

// varints decodes numbers. After the end of the input, or after a number that the encoder
// never writes, it returns zeros and sets bad. Sums cannot overflow, and memory stays small.
type varints struct {
	input *bytes.Reader
	bad   bool
}

// next reads a number up to a limit.
func (r *varints) next(limit uint64) int64 {
	n, err := binary.ReadUvarint(r.input)
	r.bad = r.bad || err != nil || n > limit
	if r.bad {
		return 0
	}
	return int64(n)
}

func (r *varints) signed(limit int64) int64 {
	n, err := binary.ReadVarint(r.input)
	r.bad = r.bad || err != nil || n > limit || n < -limit
	return n
}

func (r *varints) metadata(committed int64) (n offsetMetadata) {
	if r.next(1) == 1 {
		n.last.ok = true
		n.last.offset = committed + r.signed(maxWindow-1)
		n.last.sum = uint32(r.next(math.MaxUint32))
		n.last.newest = r.signed(math.MaxInt64)
	}
	at := committed
	for range r.next(uint64(r.input.Len())) {
		at += r.next(maxWindow)
		n.marked = append(n.marked, openOffset{offset: at, mark: uint8(r.next(maxMark))})
		at++
	}
	at = committed
	for range r.next(uint64(r.input.Len())) {
		s := offsetRange{from: at + r.next(maxWindow)}
		s.end = s.from + r.next(maxWindow)
		r.bad = r.bad || s.from == at || s.end == s.from || s.end-committed > maxWindow
		n.done = append(n.done, s)
		at = s.end
	}
	return n
}

// metadataFits reports whether the metadata of open offsets within a window fits in chars
// characters, in whatever order they complete. The worst case: every open offset has a mark and
// is followed by a completed range. This takes a mark, two gaps and a length per open offset.
// The gaps and lengths add up to at most twice the window, which bounds the number of varints
// with an additional byte.
func metadataFits(open, window int64, chars int) bool {
	if window > maxWindow {
		return false
	}
	size := 4*open + metadataHead + metadataRest
	for more := int64(1) << 7; more <= window; more <<= 7 {
		size += min(3*open, 2*window/more)
	}
	return size <= int64(base64.RawURLEncoding.DecodedLen(chars))
}
