package rest

import (
	"errors"
	"net/http"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// collection is what the API does with the entities of one kind. A hook that is
// nil does nothing.
type collection struct {
	kind entity.Kind
	// permit refuses a PUT or DELETE by the name alone.
	permit func(*request) error
	// check refuses a PUT; old is the entity as it is, nil for a new one.
	check func(r *request, put *entity.Put, old *entity.Entity) error
	// link changes what else depends on a PUT, before the entity is written.
	link func(r *request, made, old *entity.Entity) error
	// unlink changes what else depends on a DELETE, or refuses it.
	unlink func(*request, *entity.Entity) error
	// answer writes the entity for its user.
	answer func(*request, *entity.Entity) ([]byte, error)
}

func plainAnswer(_ *request, e *entity.Entity) ([]byte, error) { return e.Answer(), nil }

// get answers with an entity of the caller's own.
func (h *Handler) get(c collection) func(*request) error {
	return func(r *request) error {
		e, err := h.read(r, c.kind)
		if err != nil {
			return err
		}
		return r.show(c, http.StatusOK, e)
	}
}

// put makes or updates the entity that the path names.
func (h *Handler) put(c collection) func(*request) error {
	return func(r *request) error {
		if err := r.permitted(c); err != nil {
			return err
		}
		made, old, err := h.merge(r, c)
		if err != nil {
			return err
		}
		if c.link != nil {
			if err := c.link(r, made, old); err != nil {
				return err
			}
		}
		if err := h.cfg.Catalog.Put(r.Context(), made); err != nil {
			return err
		}
		return r.show(c, http.StatusOK, made)
	}
}

// delete removes an entity and answers with what it was.
func (h *Handler) delete(c collection) func(*request) error {
	return func(r *request) error {
		if err := r.permitted(c); err != nil {
			return err
		}
		e, err := h.read(r, c.kind)
		if err != nil {
			return err
		}
		if c.unlink != nil {
			if err := c.unlink(r, e); err != nil {
				return err
			}
		}
		answer, err := c.answer(r, e)
		if err != nil {
			return err
		}
		if err := h.cfg.Catalog.Delete(r.Context(), e); err != nil {
			return err
		}
		return r.raw(http.StatusOK, answer)
	}
}

func (r *request) permitted(c collection) error {
	if err := r.own(r.ns); err != nil || c.permit == nil {
		return err
	}
	return c.permit(r)
}

func (r *request) show(c collection, status int, e *entity.Entity) error {
	answer, err := c.answer(r, e)
	if err != nil {
		return err
	}
	return r.raw(status, answer)
}

// read reads the caller's own entity that the path names.
func (h *Handler) read(r *request, kind entity.Kind) (*entity.Entity, error) {
	if err := r.own(r.ns); err != nil {
		return nil, err
	}
	return h.cfg.Catalog.Get(r.Context(), kind, r.ref)
}

// merge makes the entity that a PUT describes, of the one that is there, which
// is nil if there is none.
func (h *Handler) merge(r *request, c collection) (made, old *entity.Entity, err error) {
	overwrite, body := r.flag("overwrite", false), r.body()
	if r.err != nil {
		return nil, nil, r.err
	}
	put, err := entity.DecodePut(body, r.user.Namespace.Name, h.cfg.Manifest)
	if err != nil {
		return nil, nil, err
	}
	old, err = h.cfg.Catalog.Get(r.Context(), c.kind, r.ref)
	switch {
	case err != nil && !errors.Is(err, couchdb.ErrNotFound):
		return nil, nil, err
	case err == nil && !overwrite:
		return nil, nil, conflict("resource already exists")
	}
	if c.check != nil {
		if err := c.check(r, put, old); err != nil {
			return nil, nil, err
		}
	}
	bounds, now := h.cfg.Bounds.For(activation.UserLimits{}, r.user.Limits), time.Now().UnixMilli()
	if old == nil {
		made, err = put.Create(c.kind, r.ref, bounds, now)
	} else {
		made, err = put.Update(old, bounds, now)
	}
	return made, old, err
}

// absent reports whether an error means that there is no entity of that kind.
func absent(err error) bool {
	return errors.Is(err, couchdb.ErrNotFound) || errors.Is(err, entity.ErrOtherKind)
}

// listOwn answers with a list of the caller's entities.
func (h *Handler) listOwn(v catalog.View) func(*request) error {
	return func(r *request) error {
		if err := r.own(r.ns); err != nil {
			return err
		}
		return h.list(r, v, r.ns)
	}
}

// list answers with summaries, or with how many there are.
func (h *Handler) list(r *request, v catalog.View, path string) error {
	name := string(v)
	if v == catalog.PublicPackages {
		name = string(catalog.Packages)
	}
	q := h.cfg.Catalog.Entities(v, path)
	q.Skip, q.Limit = r.skip(name), r.limit(name)
	counting := r.flag("count", false)
	if r.err != nil {
		return r.err
	}
	if counting {
		return h.count(r, name, q)
	}
	summaries, err := h.cfg.Catalog.Rows(r.Context(), q)
	if err != nil {
		return err
	}
	if v == catalog.Rules { // whose view has documents
		for i, doc := range summaries {
			rule, err := entity.Decode(entity.Rule, doc)
			if err != nil {
				return err
			}
			summaries[i] = rule.Answer()
		}
	}
	return r.json(http.StatusOK, summaries)
}

// count answers with the length of a list.
func (h *Handler) count(r *request, name string, q couchdb.Query) error {
	n, err := h.cfg.Catalog.Count(r.Context(), q)
	if err != nil {
		return err
	}
	return r.json(http.StatusOK, map[string]int{name: max(n-q.Skip, 0)})
}

// listNamespaces answers with the caller's own.
func (h *Handler) listNamespaces(r *request) error {
	return r.json(http.StatusOK, []string{r.user.Namespace.Name})
}
