package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// size is an amount of memory on the command line. Units are powers of 1024, as in
// OpenWhisk's limits and messages: 16GB, 16 GiB and 16g are the same.
type size activation.Size

// UnmarshalText parses a size.
func (s *size) UnmarshalText(text []byte) error {
	word := strings.TrimSpace(string(text))
	plain := word
	if n := len(word); n > 2 && strings.EqualFold(word[n-2:], "ib") {
		plain = word[:n-2] + "b"
	}
	v, err := activation.ParseSize(plain)
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a size: want a number and a unit, such as 16GB or 512MB", word)
	}
	*s = size(v)
	return nil
}

// String formats the size in the largest unit that divides it.
func (s size) String() string { return activation.Size(s).String() }

// bytes formats the size for a setting of the invoker, whose units differ.
func (s size) bytes() string {
	if s == 0 {
		return ""
	}
	return strconv.FormatInt(int64(s), 10)
}
