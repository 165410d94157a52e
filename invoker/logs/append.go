package logs

import (
	"time"
	"unicode/utf8"
)

// MaxPiece is the longest run of text that Docker's log copier passes on in
// one piece (daemon/logger/copier.go).
const MaxPiece = 16 << 10

// AppendLine appends one line as Docker's json-file driver writes it, with its
// line feed (daemon/logger/jsonfilelog/jsonlog). Text that ends a line carries
// its own line feed; a piece of a longer line carries none.
func AppendLine(dst []byte, stream string, at time.Time, text []byte) []byte {
	dst = at.UTC().AppendFormat(appendText(dst, stream, text), time.RFC3339Nano)
	return append(dst, "\"}\n"...)
}

// encodeLine gives a line in the same form, whose time is written already,
// without its line feed.
func encodeLine(line Line) []byte {
	dst := appendText(make([]byte, 0, len(line.Log)+80), line.Stream, []byte(line.Log))
	return append(append(dst, line.Time...), "\"}"...)
}

// appendText appends what stands before the time.
func appendText(dst []byte, stream string, text []byte) []byte {
	dst = append(dst, '{')
	if len(text) > 0 {
		dst = append(dst, `"log":"`...)
		dst = appendEscaped(dst, text)
		dst = append(dst, `",`...)
	}
	dst = append(dst, `"stream":"`...)
	dst = append(dst, stream...)
	return append(dst, `","time":"`...)
}

const hexDigits = "0123456789abcdef"

// appendEscaped writes text as the inside of a JSON string. As Docker does, it
// escapes <, > and &, the line separators U+2028 and U+2029, and puts U+FFFD
// where the text is not UTF-8.
func appendEscaped(dst, text []byte) []byte {
	done := 0
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if plainASCII(c) {
				i++
				continue
			}
			dst = append(dst, text[done:i]...)
			dst = appendEscape(dst, c)
			i++
			done = i
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, text[done:i]...), `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, text[done:i]...), `\u202`...)
			dst = append(dst, hexDigits[r&0xF])
		default:
			i += size
			continue
		}
		i += size
		done = i
	}
	return append(dst, text[done:]...)
}

func plainASCII(c byte) bool {
	return c >= ' ' && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
}
