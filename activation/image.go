package activation

import (
	"cmp"
	"fmt"
	"regexp"
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

// The forms of an image's parts. A registry differs from a prefix by a dot or a
// port.
var (
	registryForm  = regexp.MustCompile(`^[0-9A-Za-z.-]+:[0-9]+$|^[0-9A-Za-z-]*\.[0-9A-Za-z.-]*$`)
	componentForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)
	tagForm       = regexp.MustCompile(`^\w[\w.-]{0,127}$`)
	digestForm    = regexp.MustCompile(`^[\w+.-]+:[0-9A-Fa-f]{32,}$`)
)

// ParseImage reads an image reference such as "host:5000/prefix/name:tag".
func ParseImage(s string) (Image, error) {
	var i Image
	s, digest, pinned := strings.Cut(s, "@")
	parts := strings.Split(s, "/")
	last := parts[len(parts)-1]
	parts = parts[:len(parts)-1]
	if len(parts) > 0 && registryForm.MatchString(parts[0]) {
		i.Registry, parts = parts[0], parts[1:]
	}
	for _, part := range parts {
		if !componentForm.MatchString(part) {
			return Image{}, fmt.Errorf("image reference: bad prefix")
		}
	}
	i.Prefix = strings.Join(parts, "/")
	name, tag, tagged := strings.Cut(last, ":")
	if !componentForm.MatchString(name) || tagged && !tagForm.MatchString(tag) || pinned && !digestForm.MatchString(digest) {
		return Image{}, fmt.Errorf("image reference: bad name, tag or digest")
	}
	i.Name, i.Tag, i.Digest = name, tag, digest
	return i, nil
}

// reference writes the image; registry stands in where the image has none.
func (i Image) reference(registry string) string {
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
func (i Image) String() string { return i.reference("") }

// same reports whether two references mean one image. One without a tag means
// the latest.
func (i Image) same(other Image) bool {
	i.Tag, other.Tag = cmp.Or(i.Tag, "latest"), cmp.Or(other.Tag, "latest")
	return i == other
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
