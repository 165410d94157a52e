package proxy

import (
	"testing"
	"unicode/utf8"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestCharset(t *testing.T) {
	for _, c := range []struct{ mediaType, text, want string }{
		{"application/json", "grün", "grün"},
		{"application/json; charset=utf-8", "grün", "grün"},
		{`text/plain; Charset="ISO-8859-1"`, "gr\xfcn", "grün"},
		{"text/plain;charset=latin1", "\x80", "\u0080"},
		{"text/plain; charset=UTF-16", "\x00a\xd8\x3d\xde\x00", "a😀"},
		{"text/plain; charset=UTF-16", "\xff\xfea\x00", "a"},
		{"text/plain; charset=utf-16le", "a\x00b", "a\uFFFD"},
		{"text/plain; charset=klingon", "grün", "grün"},
		{"text/plain", "a\xffb", "a\uFFFDb"},
		{"text/plain", "\xf0\x9f\x98", "\uFFFD"},             // a truncated character
		{"text/plain", "\xe6\x97x\xe6", "\uFFFDx\uFFFD"},     // two truncated characters
		{"text/plain", "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"}, // a surrogate
		{"text/plain", "\xc0\x80\xf5", "\uFFFD\uFFFD\uFFFD"}, // bytes that start no sequence
		{"text/plain", "\xf0\x80\x80", "\uFFFD\uFFFD\uFFFD"}, // overlong
		{"text/plain", "\xf4\x8f\xbf\xbf", "\U0010FFFF"},     // the last character
		{"text/plain", "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "\uFFFD\uFFFD\uFFFD\uFFFDA"},
	} {
		check.Equal(t, string(decode([]byte(c.text), charsetOf(c.mediaType))), c.want, "%q as %s", c.text, c.mediaType)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("gr\xfcn"), "iso-8859-1")
	f.Add([]byte("\xff\xfea\x00b"), "utf-16")
	f.Add([]byte("\xe6\x97"), "")
	f.Fuzz(func(t *testing.T, text []byte, charset string) {
		got := decode(text, charset)
		check.That(t, utf8.Valid(got), "%q as %q: %q is no UTF-8", text, charset, got)
	})
}
