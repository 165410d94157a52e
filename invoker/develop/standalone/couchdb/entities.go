package couchdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// Entity reads an entity; an action is read without its code. The error is ErrNotFound
// if there is no such entity, or entity.ErrOtherKind if it has another kind.
func (c *Client) Entity(ctx context.Context, kind entity.Kind, ref entity.Ref) (*entity.Entity, error) {
	doc, err := c.Get(ctx, c.names.Whisks, ref.String())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return entity.Decode(kind, doc)
}

// Absent reports whether an error means that an entity of the kind does not exist.
func Absent(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, entity.ErrOtherKind)
}

// PutEntity writes an entity and sets its new revision. The error is ErrConflict if
// another write came in between. Code that lies beside its document gives it two
// revisions.
func (c *Client) PutEntity(ctx context.Context, e *entity.Entity) error {
	stored, att, code, err := attached(e)
	if err != nil {
		return err
	}
	rev, err := c.Put(ctx, c.names.Whisks, e.ID, stored.Document())
	if err != nil {
		return fmt.Errorf("write %s: %w", e.ID, err)
	}
	if name, ok := strings.CutPrefix(att.Name, beside); ok {
		if rev, err = c.PutAttachment(ctx, c.names.Whisks, e.ID, rev, name, att.Type, code); err != nil {
			return fmt.Errorf("attach code of %s: %w", e.ID, err)
		}
	}
	e.Rev = rev
	return nil
}

// DeleteEntity removes an entity as it was read.
func (c *Client) DeleteEntity(ctx context.Context, e *entity.Entity) error {
	if err := c.Delete(ctx, c.names.Whisks, e.ID, e.Rev); err != nil {
		return fmt.Errorf("delete %s: %w", e.ID, err)
	}
	return nil
}

// Resolved is an action as it is to be run: bindings followed, and the
// parameters of package, binding and action laid over one another.
type Resolved struct {
	*entity.Entity
	Binding string // full name of the binding it was reached through, or empty
}

// Resolve finds the action that a name means.
func (c *Client) Resolve(ctx context.Context, ref entity.Ref) (*Resolved, error) {
	pkg, binding := &entity.Entity{ID: ref.Path}, ""
	if ref.Package() != "" {
		var err error
		if pkg, binding, err = c.ResolvePackage(ctx, ref.PackageRef()); err != nil {
			return nil, err
		}
	}
	a, err := c.Entity(ctx, entity.Action, entity.Ref{Path: pkg.ID, Name: ref.Name})
	if err != nil {
		return nil, err
	}
	a.Parameters = a.Parameters.Over(pkg.Parameters)
	return &Resolved{a, binding}, nil
}

// ResolvePackage finds the package that a name means. Through a binding, its
// parameters are laid over the package's, and the binding's name is given.
func (c *Client) ResolvePackage(ctx context.Context, ref entity.Ref) (*entity.Entity, string, error) {
	pkg, err := c.Entity(ctx, entity.Package, ref)
	if err != nil || pkg.Bound() == nil {
		return pkg, "", err
	}
	target, err := c.Entity(ctx, entity.Package, *pkg.Bound())
	if err != nil {
		return nil, "", err
	}
	if target.Bound() != nil {
		return nil, "", entity.Bad("Cannot bind to another package binding.")
	}
	target.Parameters = pkg.Parameters.Over(target.Parameters)
	return target, pkg.ID, nil
}

// Entities are the summaries in a view of the whisks' database under a path, the last
// updated first.
func (c *Client) Entities(view, path string) Query {
	return Query{DB: c.names.Whisks, Design: "whisks.v2.1.0", View: view, Prefix: path}
}
