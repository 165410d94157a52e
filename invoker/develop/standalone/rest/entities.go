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

// ref is the entity that the path names.
func (r *request) ref() (entity.Ref, error) {
	ref, pkg := entity.Ref{Path: r.ns, Name: r.PathValue("name")}, r.PathValue("package")
	if pkg != "" {
		ref.Path += "/" + pkg
	}
	if !activation.ValidName(ref.Name) || pkg != "" && !activation.ValidName(pkg) {
		return ref, bad("The name of the entity contains illegal characters.")
	}
	return ref, nil
}

// absent reports whether an error says that there is no entity of that kind.
func absent(err error) bool {
	return errors.Is(err, couchdb.ErrNotFound) || errors.Is(err, entity.ErrOtherKind)
}

// get reads the caller's own entity that the path names.
func (h *Handler) get(r *request, kind entity.Kind) (*entity.Entity, error) {
	ref, err := r.ref()
	if err != nil {
		return nil, err
	}
	if err := r.own(r.ns); err != nil {
		return nil, err
	}
	return h.cfg.Catalog.Get(r.Context(), kind, ref)
}

// merge makes the entity that a PUT describes, of the one that is there, which
// is nil if there is none. check may refuse it before.
func (h *Handler) merge(r *request, kind entity.Kind, check func(put *entity.Put, ref entity.Ref, old *entity.Entity) error) (made, old *entity.Entity, err error) {
	ref, err := r.ref()
	if err != nil {
		return nil, nil, err
	}
	if err := r.own(ref.Namespace()); err != nil {
		return nil, nil, err
	}
	overwrite, err := r.flag("overwrite", false)
	if err != nil {
		return nil, nil, err
	}
	body, err := r.body()
	if err != nil {
		return nil, nil, err
	}
	put, err := entity.DecodePut(body, r.user.Namespace.Name, h.cfg.Manifest)
	if err != nil {
		return nil, nil, err
	}
	old, err = h.cfg.Catalog.Get(r.Context(), kind, ref)
	switch {
	case err != nil && !errors.Is(err, couchdb.ErrNotFound):
		return nil, nil, err
	case err == nil && !overwrite:
		return nil, nil, conflict("resource already exists")
	}
	if check != nil {
		if err := check(put, ref, old); err != nil {
			return nil, nil, err
		}
	}
	bounds, now := h.cfg.Bounds.For(activation.UserLimits{}, r.user.Limits), time.Now().UnixMilli()
	if old == nil {
		made, err = put.Create(kind, ref, bounds, now)
	} else {
		made, err = put.Update(old, bounds, now)
	}
	return made, old, err
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
	p, err := r.page(name)
	if err != nil {
		return err
	}
	counting, err := r.flag("count", false)
	if err != nil {
		return err
	}
	if counting {
		n, err := h.cfg.Catalog.Count(r.Context(), v, path)
		if err != nil {
			return err
		}
		return r.json(http.StatusOK, map[string]int{name: max(n-p.skip, 0)})
	}
	summaries, err := h.cfg.Catalog.List(r.Context(), v, path, p.skip, p.limit)
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

// listNamespaces answers with the caller's own.
func (h *Handler) listNamespaces(r *request) error {
	return r.json(http.StatusOK, []string{r.user.Namespace.Name})
}

// deleted removes an entity and answers with what it was.
func (h *Handler) deleted(r *request, e *entity.Entity, answer []byte) error {
	if err := h.cfg.Catalog.Delete(r.Context(), e); err != nil {
		return err
	}
	return r.raw(http.StatusOK, answer)
}
