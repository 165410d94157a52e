package activation

import (
	"fmt"
	"strings"
)

// Image names a container image. Empty parts are not set.
type Image struct {
	Registry string
	Prefix   string
	Name     string
	Tag      string
	Digest   string // with its algorithm; the original reads and loses it
}

// defaultTag is what an image without a tag means.
const defaultTag = "latest"

// ParseImage reads an image reference such as "host:5000/prefix/name:tag".
func ParseImage(s string) (Image, error) {
	var i Image
	s, digest, pinned := strings.Cut(s, "@")
	parts := strings.Split(s, "/")
	last := parts[len(parts)-1]
	parts = parts[:len(parts)-1]
	if len(parts) > 0 && isRegistry(parts[0]) {
		i.Registry, parts = parts[0], parts[1:]
	}
	for _, part := range parts {
		if !isComponent(part) {
			return Image{}, fmt.Errorf("image reference: bad prefix")
		}
	}
	i.Prefix = strings.Join(parts, "/")
	name, tag, tagged := strings.Cut(last, ":")
	if !isComponent(name) || tagged && !isTag(tag) || pinned && !isDigest(digest) {
		return Image{}, fmt.Errorf("image reference: bad name, tag or digest")
	}
	i.Name, i.Tag, i.Digest = name, tag, digest
	return i, nil
}

// isRegistry distinguishes a host from a prefix: by a dot or a port.
func isRegistry(s string) bool {
	host, port, ported := strings.Cut(s, ":")
	if host == "" || ported && (port == "" || strings.Trim(port, "0123456789") != "") {
		return false
	}
	for i := range len(host) {
		if c := host[i]; c == '_' || !isWord(c) && c != '.' && c != '-' {
			return false
		}
	}
	return ported || strings.Contains(host, ".")
}

// isComponent checks one segment of a path: letters and digits, with
// separators between them only.
func isComponent(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLowerOrDigit(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && isLowerOrDigit(s[0]) && isLowerOrDigit(s[len(s)-1])
}

func isLowerOrDigit(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'z' }

// maxTag bounds a tag, in characters.
const maxTag = 128

func isTag(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isWord(c) && (i == 0 || c != '.' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= maxTag
}

// minDigest is the shortest digest, in hexadecimal digits.
const minDigest = 32

func isDigest(s string) bool {
	algorithm, digits, ok := strings.Cut(s, ":")
	for i := range len(digits) {
		ok = ok && isHex(digits[i])
	}
	for i := range len(algorithm) {
		ok = ok && (isWord(algorithm[i]) || strings.IndexByte("+.-", algorithm[i]) >= 0)
	}
	return ok && algorithm != "" && len(digits) >= minDigest
}

// Reference writes the image; registry stands in where the image has none.
func (i Image) Reference(registry string) string {
	if i.Registry != "" {
		registry = i.Registry
	}
	s := i.Name
	if i.Tag != "" {
		s += ":" + i.Tag
	}
	if i.Digest != "" {
		s += "@" + i.Digest
	}
	if i.Prefix != "" {
		s = strings.TrimSuffix(i.Prefix, "/") + "/" + s
	}
	if registry != "" {
		s = strings.TrimSuffix(registry, "/") + "/" + s
	}
	return s
}

// String writes the image without a default registry.
func (i Image) String() string { return i.Reference("") }

// Same reports whether two references mean one image.
func (i Image) Same(other Image) bool { return i.normal() == other.normal() }

func (i Image) normal() Image {
	if i.Tag == "" {
		i.Tag = defaultTag
	}
	return i
}

func (p *parser) image() Image {
	var i Image
	p.fields(
		required("name", func() { i.Name = p.str() }),
		optional("registry", func() { i.Registry = p.str() }),
		optional("prefix", func() { i.Prefix = p.str() }),
		optional("tag", func() { i.Tag = p.str() }),
	)
	p.require(i.Name != "", "name")
	return i
}
