package activation

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// message2K is a message of the size that the speed goals name.
func message2K(t testing.TB) []byte {
	t.Helper()
	for _, c := range capturedRecords(t) {
		if c.scenario == "package-binding" && c.Topic == "invoker0" {
			fill := `"content":{"text":"` + strings.Repeat("words and numbers 12345 ", 55) + `","list":[1,2.5,{"a":null}],`
			m := strings.Replace(c.Value, `"content":{`, fill, 1)
			return []byte(m)
		}
	}
	t.Fatal("no message")
	return nil
}

func BenchmarkDecodeMessage(b *testing.B) {
	data := message2K(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := DecodeMessage(data)
		check.NoError(b, err)
	}
}

func benchRecord(b *testing.B) *Record {
	b.Helper()
	for _, c := range capturedRecords(b) {
		if c.scenario == "blocking-success" && c.Topic == "completed0" {
			a, err := DecodeAck([]byte(c.Value))
			check.NoError(b, err)
			if a.Record != nil {
				return a.Record
			}
		}
	}
	b.Fatal("no record")
	return nil
}

func BenchmarkEncodeAck(b *testing.B) {
	a := NewResult(NewTransID("abc", 1, false), benchRecord(b))
	b.ReportAllocs()
	for b.Loop() {
		_ = a.Encode()
	}
}

func BenchmarkRecordDocument(b *testing.B) {
	r := benchRecord(b)
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Document(1795250094147)
	}
}

func BenchmarkCanonical(b *testing.B) {
	data := message2K(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := Canonical(data)
		check.NoError(b, err)
	}
}

// BenchmarkCanonicalDeep is the worst answer that fits into a message: a
// megabyte below 990 objects, each of which must be rearranged.
func BenchmarkCanonicalDeep(b *testing.B) {
	data := deep(990, 1<<20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := Canonical(data)
		check.NoError(b, err)
	}
}

// deep is a text of so many bytes below so many objects whose members are not
// in order.
func deep(levels, bytes int) []byte {
	return []byte(strings.Repeat(`{"b":1,"a":`, levels) + `"` + strings.Repeat("x", bytes) + `"` + strings.Repeat("}", levels))
}

func BenchmarkDecodeAction(b *testing.B) {
	m := manifest(b)
	var doc []byte
	for _, s := range scenarios(b) {
		if d, ok := s.Actions["guest/hello"]; ok {
			doc = d
			break
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		_, err := DecodeAction(doc, m)
		check.NoError(b, err)
	}
}
