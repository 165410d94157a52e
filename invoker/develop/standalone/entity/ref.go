package entity

import (
	"encoding/json"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Ref names an entity.
type Ref struct {
	Path string // namespace, or namespace/package
	Name string
}

// String is path and name with a slash between, as ids are.
func (r Ref) String() string { return r.Path + "/" + r.Name }

// Namespace is the first segment of the path.
func (r Ref) Namespace() string { return r.PackageRef().Path }

// Package is the second segment of the path, empty for the default package.
func (r Ref) Package() string { return r.PackageRef().Name }

// PackageRef is the package that the entity is in; its name is empty for the
// default package.
func (r Ref) PackageRef() Ref {
	namespace, pkg, _ := strings.Cut(r.Path, "/")
	return Ref{namespace, pkg}
}

// ParseRef reads a full name, with or without a slash before it, and puts home
// in place of "_".
func ParseRef(s, home string) (Ref, error) {
	parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(s), "/"), "/")
	if len(parts) < 2 || len(parts) > 3 {
		return Ref{}, Malformed("The fully qualified name of the entity must contain at least the namespace and the name of the entity.")
	}
	if parts[0] == "_" {
		parts[0] = home
	}
	for _, p := range parts {
		if !activation.ValidName(p) {
			return Ref{}, Malformed("The name of the entity contains illegal characters.")
		}
	}
	last := len(parts) - 1
	return Ref{strings.Join(parts[:last], "/"), parts[last]}, nil
}

// UnmarshalJSON reads a name as text or as an object of path and name. The
// home namespace is not known here: "_" stays until it is resolved.
func (r *Ref) UnmarshalJSON(b []byte) error {
	var o struct{ Path, Name string }
	if json.Unmarshal(b, &o) == nil {
		*r = o
		return nil
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return Malformed("the name of an entity is text, or an object of path and name")
	}
	ref, err := ParseRef(s, "_")
	*r = ref
	return err
}

// resolve puts home in place of "_" in the path.
func (r *Ref) resolve(home string) {
	if r != nil && r.Namespace() == "_" {
		r.Path = home + r.Path[1:]
	}
}

// MarshalJSON writes an object of name and path.
func (r Ref) MarshalJSON() ([]byte, error) {
	return Marshal(map[string]string{"name": r.Name, "path": r.Path})
}
