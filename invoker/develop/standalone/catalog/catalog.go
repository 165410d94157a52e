// Package catalog keeps what users created and what their activations came to:
// it moves entities and records between their Go form and the documents of an
// OpenWhisk database, the code of actions as attachments included.
//
// Requests are decided by package rest and package controller.
// It starts no goroutine.
package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// Catalog is the database of a controller. It may be used from many
// goroutines.
type Catalog struct {
	db       *couchdb.Client
	names    couchdb.Names
	manifest *activation.Manifest
}

// New makes a catalog of the databases that db names.
func New(db *couchdb.Client, m *activation.Manifest) *Catalog {
	return &Catalog{db: db, names: db.Names(), manifest: m}
}

// Get reads an entity, an action without its code. The error is
// couchdb.ErrNotFound or entity.ErrOtherKind where it is one of them.
func (c *Catalog) Get(ctx context.Context, kind entity.Kind, ref entity.Ref) (*entity.Entity, error) {
	doc, err := c.db.Get(ctx, c.names.Whisks, ref.String())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	e, err := entity.Decode(kind, doc)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return e, nil
}

// PutDocument writes an entity, an action with its code in the document, and
// sets its new revision. The error is couchdb.ErrConflict if another write came
// in between.
func (c *Catalog) PutDocument(ctx context.Context, e *entity.Entity) error {
	rev, err := c.db.Put(ctx, c.names.Whisks, e.ID(), e.Document())
	if err != nil {
		return fmt.Errorf("write %s: %w", e.ID(), err)
	}
	e.Rev = rev
	return nil
}

// Delete removes an entity as it was read.
func (c *Catalog) Delete(ctx context.Context, e *entity.Entity) error {
	if err := c.db.Delete(ctx, c.names.Whisks, e.ID(), e.Rev); err != nil {
		return fmt.Errorf("delete %s: %w", e.ID(), err)
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
func (c *Catalog) Resolve(ctx context.Context, ref entity.Ref) (*Resolved, error) {
	if ref.Package() == "" {
		a, err := c.Get(ctx, entity.Action, ref)
		if err != nil {
			return nil, err
		}
		return &Resolved{Entity: a}, nil
	}
	pkg, binding, err := c.ResolvePackage(ctx, entity.Ref{Path: ref.Namespace(), Name: ref.Package()})
	if err != nil {
		return nil, err
	}
	a, err := c.Get(ctx, entity.Action, entity.Ref{Path: pkg.ID(), Name: ref.Name})
	if err != nil {
		return nil, err
	}
	a.Parameters = a.Parameters.Over(pkg.Parameters)
	return &Resolved{a, binding}, nil
}

// ErrCircular is a binding that stands for another binding.
var ErrCircular = errors.New("package binding stands for another binding")

// ResolvePackage finds the package that a name means. Through a binding, its
// parameters are laid over the package's, and the binding's name is given.
func (c *Catalog) ResolvePackage(ctx context.Context, ref entity.Ref) (*entity.Entity, string, error) {
	pkg, err := c.Get(ctx, entity.Package, ref)
	if err != nil || pkg.Binding == nil {
		return pkg, "", err
	}
	target, err := c.Get(ctx, entity.Package, *pkg.Binding)
	if err != nil {
		return nil, "", err
	}
	if target.Binding != nil {
		return nil, "", fmt.Errorf("binding %s: %w", ref, ErrCircular)
	}
	target.Parameters = pkg.Parameters.Over(target.Parameters)
	return target, pkg.ID(), nil
}

// View is one of the lists that the database keeps of entities.
type View string

// Views of entities, by the path they lie under.
const (
	Actions        View = "actions"
	Packages       View = "packages"
	PublicPackages View = "packages-public"
	Triggers       View = "triggers"
	Rules          View = "rules"
)

// Entities are those of a view under a path, the last updated first: summaries,
// for rules documents.
func (c *Catalog) Entities(v View, path string) couchdb.Query {
	return couchdb.Query{DB: c.names.Whisks, Design: "whisks.v2.1.0", View: string(v), Prefix: path, Docs: v == Rules}
}

// Activations are the summaries of a namespace's records, the last started
// first. A name, of an action or package/action, selects some.
func (c *Catalog) Activations(namespace, name string) couchdb.Query {
	q := couchdb.Query{DB: c.names.Activations, Design: "whisks.v2.1.0", View: "activations", Prefix: namespace}
	if name != "" {
		q.Design = "whisks-filters.v2.1.1"
		q.Prefix += "/" + name
	}
	return q
}

// Rows gives what a query selects.
func (c *Catalog) Rows(ctx context.Context, q couchdb.Query) ([]json.RawMessage, error) {
	return c.db.Rows(ctx, q)
}

// Count gives how many rows a query selects, skipped ones and those past its
// limit included.
func (c *Catalog) Count(ctx context.Context, q couchdb.Query) (int, error) { return c.db.Count(ctx, q) }

// Records gives the whole records that a query selects.
func (c *Catalog) Records(ctx context.Context, q couchdb.Query) ([]*activation.Record, error) {
	q.Docs = true
	docs, err := c.db.Rows(ctx, q)
	if err != nil {
		return nil, err
	}
	records := make([]*activation.Record, 0, len(docs))
	for _, doc := range docs {
		r, err := activation.DecodeRecord(doc)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

// Record reads the record of an activation in a namespace.
func (c *Catalog) Record(ctx context.Context, namespace string, id activation.ID) (*activation.Record, error) {
	doc, err := c.db.Get(ctx, c.names.Activations, namespace+"/"+string(id))
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", id, err)
	}
	return activation.DecodeRecord(doc)
}

// SaveRecord writes a record; one that is there already counts as written.
func (c *Catalog) SaveRecord(ctx context.Context, r *activation.Record, now int64) error {
	_, err := c.db.Put(ctx, c.names.Activations, r.DocumentID(), r.Document(now))
	if err != nil && !errors.Is(err, couchdb.ErrConflict) {
		return fmt.Errorf("write record %s: %w", r.ActivationID, err)
	}
	return nil
}

// Identity finds the user of a key: [uuid, secret], or [namespace] for its
// owner.
func (c *Catalog) Identity(ctx context.Context, key ...string) (*activation.Identity, error) {
	row, err := c.db.Identity(ctx, key...)
	if err != nil {
		return nil, err
	}
	limits, err := c.limits(ctx, row.Namespace)
	if err != nil {
		return nil, err
	}
	return &activation.Identity{
		Subject:   row.Subject,
		Namespace: activation.Namespace{Name: row.Namespace, UUID: row.UUID},
		AuthKey:   activation.NewAuthKey(row.UUID + ":" + row.Key),
		Rights:    []string{"READ", "PUT", "DELETE", "ACTIVATE"},
		Limits:    limits,
	}, nil
}

// limits reads the document <namespace>/limits; most namespaces have none.
func (c *Catalog) limits(ctx context.Context, namespace string) (activation.UserLimits, error) {
	doc, err := c.db.Get(ctx, c.names.Subjects, namespace+"/limits")
	if errors.Is(err, couchdb.ErrNotFound) {
		return activation.UserLimits{}, nil
	}
	if err != nil {
		return activation.UserLimits{}, fmt.Errorf("read limits of %s: %w", namespace, err)
	}
	limits, err := activation.ParseUserLimits(doc)
	if err != nil {
		return activation.UserLimits{}, fmt.Errorf("decode limits of %s: %w", namespace, err)
	}
	return limits, nil
}
