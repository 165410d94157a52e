package activation

import (
	"fmt"
	"math"
	"regexp"
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

// sizeForm has at most one blank before, between and after (ByteSize.fromString).
var sizeForm = regexp.MustCompile(`^[\t-\r ]?([0-9]+)[\t-\r ]?(?:([KkMmGg])[Bb]?|[Bb])[\t-\r ]?$`)

// ParseSize reads "256 MB", "256mb", "1 G" or "512 B".
func ParseSize(s string) (Size, error) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("size %q: want a number and one of B, KB, MB, GB", s)
	}
	unit := map[string]Size{"": B, "K": KB, "M": MB, "G": GB}[strings.ToUpper(m[2])]
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, fmt.Errorf("size %q: too large", s)
	}
	return Size(n) * unit, nil
}

// Bytes writes the size in bytes, as messages have an invoker's memory.
func (s Size) Bytes() string { return strconv.FormatInt(int64(s), 10) + " B" }

// String returns the size in the largest unit that divides it.
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
