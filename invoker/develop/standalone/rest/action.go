package rest

import (
	"errors"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// maxSequence is how many actions a sequence may run, those of nested
// sequences included.
const maxSequence = 50

// getAction answers with the action as it would run: the parameters of its
// package and of a binding laid under its own.
func (h *Handler) getAction(r *request) error {
	ref, err := r.ref()
	if err != nil {
		return err
	}
	if err := h.mayUse(r, ref.Namespace(), ref.Package()); err != nil {
		return err
	}
	withCode, err := r.flag("code", true)
	if err != nil {
		return err
	}
	a, err := h.cfg.Catalog.Resolve(r.Context(), ref)
	if err != nil {
		return err
	}
	if !withCode {
		return r.raw(http.StatusOK, a.AnswerBare())
	}
	if err := h.cfg.Catalog.LoadCode(r.Context(), a.Entity); err != nil {
		return err
	}
	return r.raw(http.StatusOK, a.Answer())
}

// inPackage refuses a change to an action in a binding, or in a package that is
// not there.
func (h *Handler) inPackage(r *request, ref entity.Ref) error {
	if ref.Package() == "" {
		return nil
	}
	pkg, err := h.cfg.Catalog.Get(r.Context(), entity.Package, entity.Ref{Path: ref.Namespace(), Name: ref.Package()})
	if err != nil {
		return err
	}
	if pkg.Binding != nil {
		return bad("Operation not permitted on package binding.")
	}
	return nil
}

func (h *Handler) putAction(r *request) error {
	a, _, err := h.merge(r, entity.Action, func(put *entity.Put, ref entity.Ref, _ *entity.Entity) error {
		if err := h.inPackage(r, ref); err != nil {
			return err
		}
		if put.Exec == nil || !put.Exec.IsSequence() {
			return nil
		}
		_, err := h.countActions(r, ref, put.Exec.Components, 0)
		return err
	})
	if err != nil {
		return err
	}
	if err := h.cfg.Catalog.Put(r.Context(), a); err != nil {
		return err
	}
	if a.Exec.Code == nil {
		if err := h.cfg.Catalog.LoadCode(r.Context(), a); err != nil {
			return err
		}
	}
	return r.raw(http.StatusOK, a.Answer())
}

func (h *Handler) deleteAction(r *request) error {
	ref, err := r.ref()
	if err != nil {
		return err
	}
	if err := r.own(ref.Namespace()); err != nil {
		return err
	}
	if err := h.inPackage(r, ref); err != nil {
		return err
	}
	a, err := h.get(r, entity.Action)
	if err != nil {
		return err
	}
	if err := h.cfg.Catalog.LoadCode(r.Context(), a); err != nil && !errors.Is(err, couchdb.ErrNotFound) {
		return err // an action whose code is lost can still be deleted
	}
	return h.deleted(r, a, a.Answer())
}

// countActions is how many actions a sequence runs. It refuses one that is too
// long, contains itself or names what is not there.
func (h *Handler) countActions(r *request, self entity.Ref, components []string, depth int) (int, error) {
	tooMany := bad("Too many actions in the sequence.")
	if len(components) > maxSequence || depth > maxSequence {
		return 0, tooMany
	}
	total := 0
	for _, name := range components {
		ref, err := entity.ParseRef(name, r.user.Namespace.Name)
		if err != nil {
			return 0, err
		}
		if err := h.mayUse(r, ref.Namespace(), ref.Package()); err != nil {
			return 0, err
		}
		a, err := h.cfg.Catalog.Resolve(r.Context(), ref)
		switch {
		case ref == self || err == nil && a.Ref() == self:
			return 0, bad("Sequence may not refer to itself.")
		case absent(err):
			return 0, bad("Sequence component does not exist.")
		case err != nil:
			return 0, err
		}
		n := 1
		if a.Exec.IsSequence() {
			if n, err = h.countActions(r, self, a.Exec.Components, depth+1); err != nil {
				return 0, err
			}
		}
		if total += n; total > maxSequence {
			return 0, tooMany
		}
	}
	return total, nil
}
