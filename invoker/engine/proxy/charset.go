package proxy

import (
	"unicode/utf16"
	"unicode/utf8"
)

// decode turns the body into UTF-8. A charset that is not known here is read
// as UTF-8, which JSON is anyhow.
func decode(text []byte, charset string) []byte {
	switch charset {
	case "iso-8859-1", "latin1", "iso8859_1":
		return decodeLatin1(text)
	case "utf-16", "utf-16be", "utf-16le":
		return decodeUTF16(text, charset)
	}
	if utf8.Valid(text) {
		return text
	}
	return replaceMalformed(text)
}

func decodeLatin1(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/8)
	for _, c := range text {
		out = utf8.AppendRune(out, rune(c))
	}
	return out
}

// decodeUTF16 takes a byte order mark where the charset names no order; without
// one the order is big-endian (RFC 2781, section 4.3).
func decodeUTF16(text []byte, charset string) []byte {
	little := charset == "utf-16le"
	if charset == "utf-16" && len(text) >= 2 {
		switch {
		case text[0] == 0xFF && text[1] == 0xFE:
			little, text = true, text[2:]
		case text[0] == 0xFE && text[1] == 0xFF:
			text = text[2:]
		}
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		hi, lo := text[2*i], text[2*i+1]
		if little {
			hi, lo = lo, hi
		}
		units[i] = uint16(hi)<<8 | uint16(lo)
	}
	out := []byte(string(utf16.Decode(units)))
	if len(text)%2 == 1 {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	return out
}

// replaceMalformed puts one replacement character for each malformed sequence,
// where the longest beginning of a well-formed one counts as a single sequence
// (Unicode, section 3.9). Java decodes so; a truncated answer often ends in the
// middle of a character.
func replaceMalformed(text []byte) []byte {
	out := make([]byte, 0, len(text)+8)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			out = append(out, "\uFFFD"...)
			text = text[begun(text):]
			continue
		}
		out = append(out, text[:n]...)
		text = text[n:]
	}
	return out
}

// begun is the length of the malformed sequence that text starts with.
func begun(text []byte) int {
	n := 1
	lo, hi, want := second(text[0])
	for n < want && n < len(text) && lo <= text[n] && text[n] <= hi {
		lo, hi = 0x80, 0xBF
		n++
	}
	return n
}

// second gives the range of the byte that may follow the first of a sequence,
// and the sequence's full length; 1 when none may.
func second(first byte) (lo, hi byte, length int) {
	switch {
	case first >= 0xC2 && first <= 0xDF:
		return 0x80, 0xBF, 2
	case first == 0xE0:
		return 0xA0, 0xBF, 3
	case first == 0xED:
		return 0x80, 0x9F, 3
	case first >= 0xE1 && first <= 0xEF:
		return 0x80, 0xBF, 3
	case first == 0xF0:
		return 0x90, 0xBF, 4
	case first >= 0xF1 && first <= 0xF3:
		return 0x80, 0xBF, 4
	case first == 0xF4:
		return 0x80, 0x8F, 4
	}
	return 0, 0, 1
}
