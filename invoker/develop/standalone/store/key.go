package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Type tags in CouchDB's collation order: null, false, true, numbers, strings,
// arrays, objects. A zero byte ends strings, arrays and objects, so that a
// prefix sorts before a longer value.
const (
	tagEnd    = 0x00
	tagNull   = 0x01
	tagFalse  = 0x02
	tagTrue   = 0x03
	tagNumber = 0x04
	tagString = 0x05
	tagArray  = 0x06
	tagObject = 0x07
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
			return append(b, tagTrue)
		}
		return append(b, tagFalse)
	case json.Number:
		f, _ := v.Float64() // out of range: an infinity, which sorts rightly
		return appendNumber(b, f)
	case string:
		// Zero bytes within are escaped, so that the end is unambiguous.
		return append(append(append(b, tagString), strings.ReplaceAll(v, "\x00", "\x00\xff")...), tagEnd)
	case []any:
		b = append(b, tagArray)
		for _, e := range v {
			b = appendKey(b, e)
		}
		return append(b, tagEnd)
	case map[string]any:
		b = append(b, tagObject)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = appendKey(appendKey(b, name), v[name])
		}
		return append(b, tagEnd)
	}
	return append(b, tagNull)
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
	return binary.BigEndian.AppendUint64(append(b, tagNumber), u)
}
