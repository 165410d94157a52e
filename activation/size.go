package activation

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. OpenWhisk writes it as "<n> <unit>" in messages
// and manifests, where every unit is a power of 1024.
type Size int64

// Units of Size.
const (
	B  Size = 1
	KB      = 1024 * B
	MB      = 1024 * KB
	GB      = 1024 * MB
)

// ParseSize reads "256 MB", "256mb", "1 G" or "512 B": at most one blank
// before, between and after (ByteSize.fromString).
func ParseSize(s string) (Size, error) {
	rest := trimBlank(s)
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	n, err := strconv.ParseInt(rest[:digits], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: want a number and one of B, KB, MB, GB", s)
	}
	word := trimBlank(rest[digits:])
	if n := len(word); n > 0 && isBlank(word[n-1]) {
		word = word[:n-1]
	}
	unit, ok := unitOf(word)
	if !ok {
		return 0, fmt.Errorf("size %q: want a number and one of B, KB, MB, GB", s)
	}
	if n > math.MaxInt64/int64(unit) {
		return 0, fmt.Errorf("size %q: too large", s)
	}
	return Size(n) * unit, nil
}

// trimBlank cuts off one leading blank, if there is one.
func trimBlank(s string) string {
	if s != "" && isBlank(s[0]) {
		return s[1:]
	}
	return s
}

func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func unitOf(word string) (Size, bool) {
	switch strings.ToUpper(word) {
	case "B":
		return B, true
	case "K", "KB":
		return KB, true
	case "M", "MB":
		return MB, true
	case "G", "GB":
		return GB, true
	}
	return 0, false
}

// Bytes writes the size in bytes, as messages have an invoker's memory.
func (s Size) Bytes() string { return strconv.FormatInt(int64(s), 10) + " B" }

// String writes the size with the largest unit that leaves no remainder.
func (s Size) String() string {
	for _, u := range [...]struct {
		size Size
		word string
	}{{GB, " GB"}, {MB, " MB"}, {KB, " KB"}} {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.word
		}
	}
	return s.Bytes()
}

func (p *parser) size() Size {
	s := p.str()
	if p.err != nil {
		return 0
	}
	v, err := ParseSize(s)
	if err != nil {
		p.failf("want a size such as 256 MB")
	}
	return v
}
