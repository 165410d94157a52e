package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// collection handles the entities of one kind. The hooks permit, link and unlink may be
// nil. A nil read or answer means the default.
type collection struct {
	name string // in paths, also that of the database's view
	kind entity.Kind
	// read answers a GET.
	read func(*request) error
	// post answers a POST.
	post func(*request) error
	// permit refuses a PUT or DELETE by the name alone.
	permit func(*request) error
	// link is called before an entity is written. It refuses the PUT, or updates entities
	// that depend on it. old is the previous state; a new entity has no version there.
	link func(r *request, made, old *entity.Entity) error
	// unlink is called before an entity is deleted. It refuses the DELETE, or updates
	// entities that depend on it.
	unlink func(*request, *entity.Entity) error
	// answer writes the entity for its user.
	answer func(*request, *entity.Entity) ([]byte, error)
}

// collections are the kinds of entities. POST to a package is refresh, an operation
// of old clients.
func collections() []collection {
	return []collection{
		{name: "actions", kind: entity.Action, read: (*request).getAction, post: (*request).invokeAction,
			permit: (*request).inPackage, link: (*request).checkSequence, answer: (*request).actionAnswer},
		{name: "packages", kind: entity.Package, read: (*request).getPackage, post: (*request).unserved,
			link: (*request).checkPackage, unlink: (*request).checkEmpty},
	}
}

// get answers with an entity of the caller's own.
func (c collection) get(r *request) error {
	if c.read != nil {
		return c.read(r)
	}
	e, err := r.ownEntity(c.kind)
	if err != nil {
		return err
	}
	return r.sendJSON(c.text(r, e))
}

// put makes or updates the entity that the path names.
func (c collection) put(r *request) error {
	if err := c.permitted(r); err != nil {
		return err
	}
	overwrite, body := r.flag("overwrite", false), r.body()
	if r.err != nil {
		return r.err
	}
	old, err := r.DB.Entity(r.Context(), c.kind, r.ref)
	switch {
	case errors.Is(err, couchdb.ErrNotFound):
		old = entity.New(c.kind, r.ref)
	case err != nil:
		return err
	case !overwrite:
		return conflict("resource already exists")
	}
	made, err := old.Put(body, entity.Terms{
		Home: r.user.Namespace.Name, Manifest: r.Manifest, Bounds: r.bounds(), Now: time.Now().UnixMilli(),
	})
	if err == nil && c.link != nil {
		err = c.link(r, made, old)
	}
	if err == nil {
		err = r.DB.PutEntity(r.Context(), made)
	}
	if err != nil {
		return err
	}
	return r.sendJSON(c.text(r, made))
}

// delete removes an entity and answers with its last state.
func (c collection) delete(r *request) error {
	if err := c.permitted(r); err != nil {
		return err
	}
	e, err := r.DB.Entity(r.Context(), c.kind, r.ref)
	if err == nil && c.unlink != nil {
		err = c.unlink(r, e)
	}
	if err != nil {
		return err
	}
	answer, err := c.text(r, e)
	if err == nil {
		err = r.DB.DeleteEntity(r.Context(), e)
	}
	return r.sendJSON(answer, err)
}

func (c collection) permitted(r *request) error {
	if err := r.own(r.ns); err != nil || c.permit == nil {
		return err
	}
	return c.permit(r)
}

func (c collection) text(r *request, e *entity.Entity) ([]byte, error) {
	if c.answer == nil {
		return e.Answer(), nil
	}
	return c.answer(r, e)
}

// list answers with summaries of the caller's entities; to others with those of
// packages that are shared.
func (c collection) list(r *request) error {
	view := c.name
	if err := r.own(r.ns); err != nil {
		if c.kind != entity.Package {
			return err
		}
		view = "packages-public"
	}
	return r.list(c.name, r.DB.Entities(view, r.ns), asItIs)
}

// listNone returns a handler that lists a collection without entities. wsk list asks for
// triggers and rules, too.
func listNone(name string) func(*request) error {
	return func(r *request) error {
		if r.flag("count", false) {
			return r.json(http.StatusOK, map[string]int{name: 0})
		}
		return r.json(http.StatusOK, []string{})
	}
}

// list answers with the rows of a query, converted by show, or with their number.
func (r *request) list(name string, q couchdb.Query, show func(json.RawMessage) (json.RawMessage, error)) error {
	q.Skip, q.Limit = r.skip(name), r.limit(name)
	counting := r.flag("count", false)
	if r.err != nil {
		return r.err
	}
	if counting {
		n, err := r.DB.Count(r.Context(), q)
		if err != nil {
			return err
		}
		return r.json(http.StatusOK, map[string]int{name: max(n-q.Skip, 0)})
	}
	rows, err := r.DB.Rows(r.Context(), q)
	if err != nil {
		return err
	}
	for i, row := range rows {
		if rows[i], err = show(row); err != nil {
			return err
		}
	}
	return r.json(http.StatusOK, rows)
}

func asItIs(row json.RawMessage) (json.RawMessage, error) { return row, nil }

// ownEntity reads the caller's own entity that the path names.
func (r *request) ownEntity(kind entity.Kind) (*entity.Entity, error) {
	if err := r.own(r.ns); err != nil {
		return nil, err
	}
	return r.DB.Entity(r.Context(), kind, r.ref)
}

// bounds are those of the caller's limits.
func (r *request) bounds() activation.Bounds {
	return r.Bounds.For(activation.UserLimits{}, r.user.Limits)
}
