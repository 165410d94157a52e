package proxy

import (
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// charsets are those that are known here. UTF-16 without a byte order mark is
// big-endian (RFC 2781, section 4.3).
var charsets = map[string]encoding.Encoding{
	"iso-8859-1": charmap.ISO8859_1,
	"iso8859_1":  charmap.ISO8859_1,
	"latin1":     charmap.ISO8859_1,
	"utf-16":     unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
	"utf-16be":   unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	"utf-16le":   unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
}

// decode turns the body into UTF-8. A charset that is not known here is read
// as UTF-8, which JSON is anyhow. There one replacement character stands for each
// malformed sequence, where the longest beginning of a well-formed one counts as a
// single sequence (Unicode, section 3.9). Java decodes so; a truncated answer often
// ends in the middle of a character.
func decode(text []byte, charset string) []byte {
	known, ok := charsets[charset]
	if !ok {
		if utf8.Valid(text) {
			return text
		}
		known = unicode.UTF8
	}
	out, _ := known.NewDecoder().Bytes(text) // what is malformed is replaced
	return out
}
