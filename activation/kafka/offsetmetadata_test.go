package kafka

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// sample is metadata of random content, and the position that it stands beside.
func sample(r *rand.Rand, ranges int) (int64, offsetMetadata) {
	position := r.Int64N(1 << 40)
	n := offsetMetadata{last: lastRecord{offset: position + r.Int64N(1<<20), sum: r.Uint32(), newest: r.Int64N(1 << 42), ok: true}}
	at := position
	for range ranges {
		if r.IntN(3) == 0 {
			n.marked = append(n.marked, openOffset{offset: at, mark: uint8(r.IntN(maxMark + 1))})
		}
		s := offsetRange{from: at + 1 + r.Int64N(1<<r.IntN(8))}
		s.end = s.from + 1 + r.Int64N(1<<r.IntN(12))
		n.done = append(n.done, s)
		at = s.end
	}
	return position, n
}

func TestOffsetMetadataIsReadAsItWasWritten(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		position, n := sample(r, r.IntN(60))
		if seed%7 == 0 {
			n.last = lastRecord{}
		}
		text, whole := n.encode(position, metadataChars)
		got, err := decodeOffsetMetadata(text, position)
		check.NoError(t, err, "seed %d", seed)
		check.That(check.Must(t), whole, "seed %d: %v, whole %v\nwrote %+v\nread  %+v", seed, err, whole, n, got)
		check.DeepEqual(check.Must(t), got, n, "seed %d", seed)
	}
}

// The text was written by 30acbbfc, which counted starts and attempts itself. Its words are the
// marks of package delivery.
func TestOffsetMetadataOfAFormerVersionIsRead(t *testing.T) {
	const text = "AshnWkQBErlggKCr_vliAgAFAgECAQIBBg"
	want := offsetMetadata{
		last:   lastRecord{offset: 1009, sum: 12345, newest: 1_700_000_000_000, ok: true},
		done:   []offsetRange{{1001, 1003}, {1004, 1010}},
		marked: []openOffset{{offset: 1000, mark: 2<<1 | 1}, {offset: 1003, mark: 1}},
	}
	got, err := decodeOffsetMetadata(text, 1000)
	check.NoError(t, err)
	check.DeepEqual(t, got, want)
	again, whole := got.encode(1000, metadataChars)
	check.Equal(t, again, text)
	check.That(t, whole, "it does not fit")
}

// Entries that do not fit are dropped from the end. The remaining entries are correct.
func TestOffsetMetadataKeepsToTheLimit(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		position, n := sample(r, 3000)
		chars := 64 + r.IntN(metadataChars-64)
		text, whole := n.encode(position, chars)
		check.That(check.Must(t), !whole, "seed %d: %d characters of %d, whole %v", seed, len(text), chars, whole)
		check.AtMost(check.Must(t), len(text), chars, "seed %d", seed)
		check.AtLeast(check.Must(t), len(text), chars-80, "seed %d", seed)
		got, err := decodeOffsetMetadata(text, position)
		check.NoError(t, err, "seed %d", seed)
		if !reflect.DeepEqual(got.done, n.done[:len(got.done):len(got.done)]) && len(got.done) > 0 {
			t.Fatalf("seed %d: runs that were not written", seed)
		}
		if !reflect.DeepEqual(got.marked, n.marked[:len(got.marked):len(got.marked)]) && len(got.marked) > 0 {
			t.Fatalf("seed %d: marks that were not written", seed)
		}
	}
	text, whole := (&offsetMetadata{}).encode(7, 4)
	check.Equal(t, text, "")
	check.That(t, !whole, "%q written into 4 characters", text)
}

// One open activation with thousands of completed ones above it takes a few bytes. The usual
// state under load is short, too.
func TestOffsetMetadataIsShort(t *testing.T) {
	n := offsetMetadata{last: lastRecord{offset: 6000, sum: 1 << 31, newest: 1 << 41, ok: true}, done: []offsetRange{{1001, 6001}}, marked: []openOffset{{offset: 1000, mark: 3}}}
	text, _ := n.encode(1000, metadataChars)
	check.AtMost(t, len(text), 40, "characters for one open activation")
	r := rand.New(rand.NewPCG(5, 5))
	var p progress
	for o := range int64(100_000) {
		open := p.deliver(record{offset: o}).open
		if r.IntN(500) > 0 {
			p.end(open)
		}
	}
	text, whole := p.metadata(metadataChars).encode(p.offset(), metadataChars)
	check.That(check.Must(t), whole, "%d characters for %d open among 100,000, whole %v", len(text), len(p.open), whole)
	check.AtMost(t, len(text), 1000, "%d characters for %d open among 100,000, whole %v", len(text), len(p.open), whole)
}

// metadataFits promises that whatever is open can be named, however it ends.
func TestOffsetMetadataFitsWhatItPromises(t *testing.T) {
	fitting := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 6))
		chars := 200 + r.IntN(metadataChars-200)
		open := 1 + r.Int64N(2000)
		window := open + r.Int64N(1<<(2+r.IntN(20)))
		if !metadataFits(open, window, chars) {
			continue
		}
		fitting++
		// The worst cases: the open ones spread evenly, in pairs, at random.
		for shape := range 3 {
			p := progress{last: lastRecord{offset: window, sum: 1 << 31, newest: 1 << 41, ok: true}}
			var left int64
			for o := range window {
				var stays bool
				switch shape {
				case 0:
					stays = o*open/window != (o-1)*open/window || o == 0
				case 1:
					stays = (o/2)*open/window != (o/2-1)*open/window && left < open
				case 2:
					stays = r.Int64N(window) < open
				}
				if stays && left < open {
					left++
					p.deliver(record{offset: o}).open.mark = maxMark
				}
			}
			p.skipTo(window)
			_, whole := p.metadata(chars).encode(p.offset(), chars)
			check.That(check.Must(t), whole, "seed %d shape %d: %d open of %d do not fit into %d characters", seed, shape, left, window, chars)
		}
	}
	check.AtLeast(t, fitting, 20)
	for n, c := range map[int64]struct {
		of   int64
		want bool
	}{1: {5000, true}, 500: {50_000, true}, 20_000: {50_000, false}} {
		check.Equal(t, metadataFits(n, c.of, metadataChars), c.want, "%d of %d fit", n, c.of)
	}
}

// Metadata that is damaged anywhere, cut anywhere, of another position, of
// another program or of a newer version is an error; the position then counts
// alone.
func TestOffsetMetadataRefusesWhatIsNotItsOwn(t *testing.T) {
	position, n := sample(rand.New(rand.NewPCG(1, 7)), 40)
	text, _ := n.encode(position, metadataChars)
	for i := range len(text) {
		for _, c := range []byte{'A', 'z', '_', ' ', 0xff} {
			if text[i] == c {
				continue
			}
			damaged := text[:i] + string(c) + text[i+1:]
			if got, err := decodeOffsetMetadata(damaged, position); err == nil {
				// The last character has bits that mean nothing.
				check.Equal(check.Must(t), i, len(text)-1, "byte %d changed to %q: taken", i, c)
				check.DeepEqual(check.Must(t), got, n, "byte %d changed to %q: taken", i, c)
			}
		}
		if _, err := decodeOffsetMetadata(text[:i], position); i > 0 && err == nil {
			t.Fatalf("cut after %d characters: taken", i)
		}
	}
	_, err := decodeOffsetMetadata(text, position+1)
	check.ErrorIs(t, err, errMetadataForeign, "beside another position")
	for _, foreign := range []string{"x", "consumer-1", "{}", "AAAA", strings.Repeat("A", 5000), "\x00"} {
		_, err := decodeOffsetMetadata(foreign, position)
		check.ErrorIs(t, err, errMetadataForeign, "%.20q", foreign)
	}
	got, err := decodeOffsetMetadata("", position)
	check.NoError(t, err)
	check.Equal(t, len(got.done), 0)
	check.That(t, !got.last.ok, "nothing: %+v, %v", got, err)
	newer := renumber(text, position, metadataVersion+1)
	_, err = decodeOffsetMetadata(newer, position)
	check.ErrorIs(t, err, errMetadataVersion, "of a newer version")
	check.Contains(t, fmt.Sprint(err), "format 3", "of a newer version")
}

// FuzzOffsetMetadata checks that decodeOffsetMetadata never panics and never uses much memory,
// and that decoded metadata survives a round trip. Half of the inputs get a correct checksum;
// otherwise hardly any would pass it.
func FuzzOffsetMetadata(f *testing.F) {
	for seed := range uint64(20) {
		position, n := sample(rand.New(rand.NewPCG(seed, 8)), int(seed))
		text, _ := n.encode(position, metadataChars)
		f.Add(text, position, seed%2 == 0)
	}
	f.Add("", int64(0), false)
	f.Add("AQAAAAD_____", int64(1), true)
	f.Fuzz(func(t *testing.T, text string, position int64, seal bool) {
		if seal {
			text = renumber(text, position, metadataVersion)
		}
		n, err := decodeOffsetMetadata(text, position)
		if err != nil || text == "" { // nothing is written back for an empty text
			return
		}
		at := position
		for _, s := range n.done {
			check.Greater(check.Must(t), s.from, at)
			check.Greater(check.Must(t), s.end, s.from)
			check.AtMost(check.Must(t), s.end, position+maxWindow)
			at = s.end
		}
		(&progress{next: position, ahead: n.done}).deliver(record{offset: position})
		again, whole := n.encode(position, 2*len(text)+200)
		if got, err := decodeOffsetMetadata(again, position); whole {
			check.NoError(t, err, "read %+v, wrote it", n)
			check.DeepEqual(check.Must(t), got, n)
		}
	})
}

// renumber gives a text another version and the check sum that belongs to it.
func renumber(text string, position int64, version byte) string {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < metadataHead {
		return text
	}
	b[0] = version
	binary.BigEndian.PutUint32(b[1:], metadataSum(b, position))
	return base64.RawURLEncoding.EncodeToString(b)
}

// BenchmarkOffsetMetadata measures the cost that metadata adds to a commit, with 64
// activations in flight and one of them open for long. One commit covers many activations.
func BenchmarkOffsetMetadata(b *testing.B) {
	p := &progress{last: lastRecord{ok: true}}
	r := rand.New(rand.NewPCG(1, 1))
	const window = 10_000
	for o := range int64(window) {
		open := p.deliver(record{offset: o}).open
		if o > 0 && (o < window-64 || r.IntN(2) == 0) {
			p.end(open)
		} else {
			p.setMark(open, 3, 1)
		}
	}
	b.ReportAllocs()
	var text string
	for b.Loop() {
		text, _ = p.metadata(metadataChars).encode(p.offset(), metadataChars)
	}
	b.ReportMetric(float64(len(text)), "chars")
}

func TestOffsetMetadataIsWordsThatABrokerTakes(t *testing.T) {
	_, n := sample(rand.New(rand.NewPCG(3, 14)), 500)
	text, _ := n.encode(0, metadataChars)
	check.That(t, !strings.ContainsFunc(text, func(r rune) bool { return r < '-' || r > 'z' }), "%.60s", text)
}

// The marks of expired activations are not in the metadata, because they lie below the offset.
func TestOffsetMetadataWithoutWhatExpired(t *testing.T) {
	var p progress
	kept := openOffset{offset: 12, mark: 1}
	p.resume(5, offsetMetadata{marked: []openOffset{{offset: 5, mark: 3}, kept}})
	p.skipTo(10)
	text, _ := p.metadata(metadataChars).encode(p.offset(), metadataChars)
	m, err := decodeOffsetMetadata(text, 10)
	check.NoError(t, err)
	check.DeepEqual(t, m.marked, []openOffset{kept}, "read %+v, %v, want %+v alone", m.marked, err, kept)
}
