// Package catalog keeps what users created and what their activations came to:
// it moves entities and records between their Go form and the documents of an
// OpenWhisk database, the code of actions as attachments included.
//
// It decides nothing about requests; package rest and package controller do.
// It starts no goroutine.
package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/entity"
)

// Catalog is the database as the controller sees it. It may be used from many
// goroutines.
type Catalog struct {
	db       *couchdb.Client
	whisks   string
	records  string
	subjects string
	manifest *activation.Manifest
}

// New makes a catalog of the databases that db names.
func New(db *couchdb.Client, m *activation.Manifest) *Catalog {
	n := db.Names()
	return &Catalog{db: db, whisks: n.Whisks, records: n.Activations, subjects: n.Subjects, manifest: m}
}

// Action reads an action without its code.
func (c *Catalog) Action(ctx context.Context, ref entity.Ref) (*entity.Action, error) {
	return get(ctx, c, ref, entity.DecodeAction)
}

// Package reads a package or binding.
func (c *Catalog) Package(ctx context.Context, ref entity.Ref) (*entity.Package, error) {
	return get(ctx, c, ref, entity.DecodePackage)
}

// Trigger reads a trigger.
func (c *Catalog) Trigger(ctx context.Context, ref entity.Ref) (*entity.Trigger, error) {
	return get(ctx, c, ref, entity.DecodeTrigger)
}

// Rule reads a rule.
func (c *Catalog) Rule(ctx context.Context, ref entity.Ref) (*entity.Rule, error) {
	return get(ctx, c, ref, entity.DecodeRule)
}

// get reads and decodes a document. The error is couchdb.ErrNotFound or
// entity.ErrOtherKind where it is one of them.
func get[T any](ctx context.Context, c *Catalog, ref entity.Ref, decode func([]byte) (*T, error)) (*T, error) {
	doc, err := c.db.Get(ctx, c.whisks, ref.String())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	e, err := decode(doc)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return e, nil
}

// PutPackage writes a package.
func (c *Catalog) PutPackage(ctx context.Context, p *entity.Package) error {
	return c.put(ctx, &p.Head, p.Encode(entity.ForDatabase, nil))
}

// PutTrigger writes a trigger.
func (c *Catalog) PutTrigger(ctx context.Context, t *entity.Trigger) error {
	return c.put(ctx, &t.Head, t.Encode(entity.ForDatabase))
}

// PutRule writes a rule.
func (c *Catalog) PutRule(ctx context.Context, r *entity.Rule) error {
	return c.put(ctx, &r.Head, r.Encode(entity.ForDatabase, ""))
}

// put writes a document and notes its new revision. The error is
// couchdb.ErrConflict if somebody else wrote in between.
func (c *Catalog) put(ctx context.Context, h *entity.Head, doc []byte) error {
	rev, err := c.db.Put(ctx, c.whisks, h.ID(), doc)
	if err != nil {
		return fmt.Errorf("write %s: %w", h.ID(), err)
	}
	h.Rev = rev
	return nil
}

// Delete removes an entity as it was read.
func (c *Catalog) Delete(ctx context.Context, h *entity.Head) error {
	if err := c.db.Delete(ctx, c.whisks, h.ID(), h.Rev); err != nil {
		return fmt.Errorf("delete %s: %w", h.ID(), err)
	}
	return nil
}

// Resolved is an action as it is to be run: bindings followed, and the
// parameters of package, binding and action laid over one another.
type Resolved struct {
	*entity.Action
	Binding string // full name of the binding it was reached through, or empty
}

// Resolve finds the action that a name means.
func (c *Catalog) Resolve(ctx context.Context, ref entity.Ref) (*Resolved, error) {
	if ref.Package() == "" {
		a, err := c.Action(ctx, ref)
		if err != nil {
			return nil, err
		}
		return &Resolved{Action: a}, nil
	}
	pkg, binding, err := c.ResolvePackage(ctx, entity.Ref{Path: ref.Namespace(), Name: ref.Package()})
	if err != nil {
		return nil, err
	}
	a, err := c.Action(ctx, entity.Ref{Path: pkg.Path(), Name: ref.Name})
	if err != nil {
		return nil, err
	}
	a.Parameters = a.Parameters.Over(pkg.Parameters)
	return &Resolved{a, binding}, nil
}

// ResolvePackage finds the package that a name means. Through a binding, its
// parameters are laid over the package's, and the binding's name is given.
func (c *Catalog) ResolvePackage(ctx context.Context, ref entity.Ref) (*entity.Package, string, error) {
	pkg, err := c.Package(ctx, ref)
	if err != nil || pkg.Binding == nil {
		return pkg, "", err
	}
	target, err := c.Package(ctx, *pkg.Binding)
	if err != nil {
		return nil, "", err
	}
	if target.Binding != nil {
		return nil, "", fmt.Errorf("binding %s: %w", ref, ErrCircular)
	}
	target.Parameters = pkg.Parameters.Over(target.Parameters)
	return target, pkg.ID(), nil
}

// ErrCircular is a binding that stands for another binding.
var ErrCircular = errors.New("package binding stands for another binding")
