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
}

// defaultTag is what an image without a tag means.
const defaultTag = "latest"

// ParseImage reads an image reference such as "host:5000/prefix/name:tag".
func ParseImage(s string) (Image, error) {
	var i Image
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
	if !isComponent(name) || tagged && !isTag(tag) {
		return Image{}, fmt.Errorf("image reference: bad name or tag")
	}
	i.Name, i.Tag = name, tag
	return i, nil
}

// isRegistry tells a host from a prefix, as Docker does: by a dot, a port, or
// the name localhost.
func isRegistry(s string) bool {
	host, port, ported := strings.Cut(s, ":")
	if ported && strings.Trim(port, "0123456789") != "" || host == "" {
		return false
	}
	return ported || strings.Contains(s, ".") || s == "localhost"
}

func isComponent(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isDigit(c) && (c < 'a' || c > 'z') && !strings.ContainsRune("._-", rune(c)) {
			return false
		}
	}
	return s != ""
}

func isTag(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isWord(c) && c != '.' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 128
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

// Same tells whether two references mean one image.
func (i Image) Same(other Image) bool { return i.normal() == other.normal() }

func (i Image) normal() Image {
	if i.Tag == "" {
		i.Tag = defaultTag
	}
	return i
}

func (p *parser) image() Image {
	var i Image
	p.object(func(key string) {
		switch {
		case key == "name":
			i.Name = p.str()
		case p.null():
		case key == "registry":
			i.Registry = p.str()
		case key == "prefix":
			i.Prefix = p.str()
		case key == "tag":
			i.Tag = p.str()
		default:
			p.skip()
		}
	})
	p.require(i.Name != "", "name")
	return i
}
