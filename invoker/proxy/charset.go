package proxy

import (
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// charsets lists the supported charsets. UTF-16 without a byte order mark is big-endian
// (RFC 2781, section 4.3).
var charsets = map[string]encoding.Encoding{
	"iso-8859-1": charmap.ISO8859_1,
	"iso8859_1":  charmap.ISO8859_1,
	"latin1":     charmap.ISO8859_1,
	"utf-16":     unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	"utf-16be":   unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	"utf-16le":   unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
}

// decode converts the body to UTF-8. An unknown charset is read as UTF-8, which JSON
// always is. Each malformed sequence becomes one replacement character, where the
// longest prefix of a well-formed sequence counts as one sequence (Unicode, section
// 3.9), as in Java. A truncated answer often ends in the middle of a character.
func decode(text []byte, charset string) []byte {
	known, ok := charsets[charset]
	if !ok {
		if utf8.Valid(text) {
			return text
		}
		known = unicode.UTF8
	}
	out, _ := known.NewDecoder().Bytes(text) // malformed input is replaced
	return out
}
