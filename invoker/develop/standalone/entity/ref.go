package entity

import (
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
