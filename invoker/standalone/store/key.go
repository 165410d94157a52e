package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"sort"
)

// Type marks in CouchDB's collation order: null, false, true, numbers,
// strings, arrays, objects. A zero byte ends strings, arrays and objects, so
// that a prefix sorts before what it begins.
const (
	markEnd    = 0x00
	markNull   = 0x01
	markFalse  = 0x02
	markTrue   = 0x03
	markNumber = 0x04
	markString = 0x05
	markArray  = 0x06
	markObject = 0x07
)

// collate turns a JSON view key into bytes whose order is CouchDB's order of
// keys, except that strings compare by bytes and not by the rules of a
// language.
func collate(text []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode view key: %w", err)
	}
	return appendKey(nil, v), nil
}

func appendKey(b []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(b, markTrue)
		}
		return append(b, markFalse)
	case json.Number:
		f, _ := v.Float64() // out of range: an infinity, which sorts rightly
		return appendNumber(b, f)
	case int64:
		return appendNumber(b, float64(v))
	case string:
		return appendString(append(b, markString), v)
	case []any:
		b = append(b, markArray)
		for _, e := range v {
			b = appendKey(b, e)
		}
		return append(b, markEnd)
	case map[string]any:
		return appendObject(b, v)
	default:
		return append(b, markNull)
	}
}

// appendNumber writes the float so that bytes sort as numbers do: the sign bit
// is flipped, and for negative numbers all bits.
func appendNumber(b []byte, f float64) []byte {
	u := math.Float64bits(f)
	if u>>63 == 1 {
		u = ^u
	} else {
		u |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(append(b, markNumber), u)
}

// appendString escapes the zero bytes within, so that the end is unambiguous.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		b = append(b, s[i])
		if s[i] == markEnd {
			b = append(b, 0xff)
		}
	}
	return append(b, markEnd)
}

func appendObject(b []byte, m map[string]any) []byte {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	b = append(b, markObject)
	for _, name := range names {
		b = appendKey(appendKey(b, name), m[name])
	}
	return append(b, markEnd)
}
