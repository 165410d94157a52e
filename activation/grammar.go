package activation

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// ID is an activation id: 32 lower-case hexadecimal digits.
type ID string

// idLength is a version 4 UUID without its dashes.
const idLength = 32

// ParseID checks an activation id.
func ParseID(s string) (ID, error) {
	if len(s) != idLength {
		return "", fmt.Errorf("activation id of %d characters: want %d", len(s), idLength)
	}
	for i := range len(s) {
		if c := s[i]; !isDigit(c) && (c < 'a' || c > 'f') {
			return "", fmt.Errorf("activation id: want only 0-9 and a-f")
		}
	}
	return ID(s), nil
}

// maxNameLength bounds an entity name, in characters.
const maxNameLength = 256

// ValidName reports whether s can name an entity: word characters, and inside
// also blanks, dots, ampersands and dashes (EntityName.REGEX).
func ValidName(s string) bool {
	if s == "" || len(s) > maxNameLength || !isWord(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !isWord(c) && !strings.ContainsRune("@ .&-", rune(c)) {
			return false
		}
	}
	return s[len(s)-1] != ' '
}

func isWord(c byte) bool {
	return c == '_' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// ParsePath checks an entity path and returns it without its empty segments:
// a namespace, or a namespace and a package.
func ParsePath(s string) (string, error) {
	kept := s
	if strings.HasPrefix(s, "/") || strings.HasSuffix(s, "/") || strings.Contains(s, "//") {
		segments := strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
		kept = strings.Join(segments, "/")
	}
	if kept == "" {
		return "", fmt.Errorf("entity path: want at least one name")
	}
	for segment := range strings.SplitSeq(kept, "/") {
		if !ValidName(segment) {
			return "", fmt.Errorf("entity path: segment that is no entity name")
		}
	}
	return kept, nil
}

// minSubjectLength is the shortest subject that OpenWhisk takes.
const minSubjectLength = 5

// SemVer is an entity's version.
type SemVer struct{ Major, Minor, Patch int }

// DefaultVersion is the version of an entity without a version.
const DefaultVersion = "0.0.1"

// ParseSemVer parses "1.2.3" and, like the original, "1" and "1.2". Text after the third
// number is ignored. 0.0.0 is invalid.
func ParseSemVer(s string) (SemVer, error) {
	rest, more := strings.TrimRight(s, "."), true
	var n [3]int
	for i := 0; i < len(n) && more; i++ {
		var part string
		part, rest, more = strings.Cut(rest, ".")
		v, err := strconv.ParseInt(part, 10, 32)
		if err != nil || v < 0 {
			return SemVer{}, fmt.Errorf("version: want numbers joined by dots")
		}
		n[i] = int(v)
	}
	if n == [3]int{} {
		return SemVer{}, fmt.Errorf("version: 0.0.0 is none")
	}
	return SemVer{n[0], n[1], n[2]}, nil
}

// String writes the version as a.b.c.
func (v SemVer) String() string {
	return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) + "." + strconv.Itoa(v.Patch)
}

// Next is the version after an update of the entity.
func (v SemVer) Next() SemVer { return SemVer{v.Major, v.Minor, v.Patch + 1} }

// maxControllerID bounds a controller id, which becomes part of a topic name.
const maxControllerID = 128

// validControllerID reports whether s can be a controller's id.
func validControllerID(s string) bool {
	if s == "" || len(s) > maxControllerID {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isWord(c) && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// UTF16Length returns the number of UTF-16 code units in s, which the original reports
// as the size of a response. An invalid UTF-8 byte counts as one unit, like the
// character that replaces it.
func UTF16Length(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}
