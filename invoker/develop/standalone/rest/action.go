package rest

import (
	"errors"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

func (h *Handler) actions() collection {
	return collection{kind: entity.Action, permit: h.inPackage, check: h.checkSequence, answer: h.actionAnswer}
}

// getAction answers with the action as it would run: the parameters of its
// package and of a binding laid under its own.
func (h *Handler) getAction(r *request) error {
	if err := h.mayUse(r, r.ref); err != nil {
		return err
	}
	withCode := r.flag("code", true)
	if r.err != nil {
		return r.err
	}
	a, err := h.cfg.Catalog.Resolve(r.Context(), r.ref)
	if err != nil {
		return err
	}
	if !withCode {
		return r.raw(http.StatusOK, a.AnswerBare())
	}
	return r.show(h.actions(), http.StatusOK, a.Entity)
}

// actionAnswer is the action with its code. An action whose code is lost can
// still be deleted.
func (h *Handler) actionAnswer(r *request, a *entity.Entity) ([]byte, error) {
	if a.Exec.Code == nil {
		err := h.cfg.Catalog.LoadCode(r.Context(), a)
		if err != nil && (r.Method != http.MethodDelete || !errors.Is(err, couchdb.ErrNotFound)) {
			return nil, err
		}
	}
	return a.Answer(), nil
}

// inPackage refuses a change to an action in a binding, or in a package that is
// not there.
func (h *Handler) inPackage(r *request) error {
	if r.ref.Package() == "" {
		return nil
	}
	pkg, err := h.cfg.Catalog.Get(r.Context(), entity.Package, r.ref.PackageRef())
	if err != nil {
		return err
	}
	if pkg.Binding != nil {
		return bad("Operation not permitted on package binding.")
	}
	return nil
}

func (h *Handler) checkSequence(r *request, put *entity.Put, _ *entity.Entity) error {
	if put.Exec == nil || !put.Exec.IsSequence() {
		return nil
	}
	_, err := h.countActions(r, put.Exec.Components, 0)
	return err
}

// countActions is how many actions a sequence runs. It refuses one that is too
// long, contains itself or names what is not there.
func (h *Handler) countActions(r *request, components []string, depth int) (int, error) {
	tooMany := bad("Too many actions in the sequence.")
	if len(components) > controller.MaxSequence || depth > controller.MaxSequence {
		return 0, tooMany
	}
	total := 0
	for _, name := range components {
		ref, err := entity.ParseRef(name, r.user.Namespace.Name)
		if err != nil {
			return 0, err
		}
		if err := h.mayUse(r, ref); err != nil {
			return 0, err
		}
		a, err := h.cfg.Catalog.Resolve(r.Context(), ref)
		switch {
		case ref == r.ref || err == nil && a.Ref() == r.ref:
			return 0, bad("Sequence may not refer to itself.")
		case absent(err):
			return 0, bad("Sequence component does not exist.")
		case err != nil:
			return 0, err
		}
		n := 1
		if a.Exec.IsSequence() {
			if n, err = h.countActions(r, a.Exec.Components, depth+1); err != nil {
				return 0, err
			}
		}
		if total += n; total > controller.MaxSequence {
			return 0, tooMany
		}
	}
	return total, nil
}
