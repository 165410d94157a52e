package rest

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// reservedPackage is the word that stands for no package in the names of web
// actions.
const reservedPackage = "default"

// listPackages shows strangers what is shared.
func (h *Handler) listPackages(r *request) error {
	if r.own(r.ns) != nil {
		return h.list(r, catalog.PublicPackages, r.ns)
	}
	return h.list(r, catalog.Packages, r.ns)
}

// getPackage answers with the package, or with what a binding makes of one,
// and with the actions in it.
func (h *Handler) getPackage(r *request) error {
	ref, err := r.ref()
	if err != nil {
		return err
	}
	if err := h.mayUse(r, ref.Path, ref.Name); err != nil {
		return err
	}
	asked, err := h.cfg.Catalog.Get(r.Context(), entity.Package, ref)
	if err != nil {
		return err
	}
	pkg, _, err := h.cfg.Catalog.ResolvePackage(r.Context(), ref)
	if err != nil {
		return err
	}
	summaries, err := h.cfg.Catalog.List(r.Context(), catalog.Actions, pkg.ID(), 0, 0)
	if err != nil {
		return err
	}
	asked.Parameters = pkg.Parameters // of both, for a binding
	text, err := asked.AnswerPackage(summaries)
	if err != nil {
		return err
	}
	return r.raw(http.StatusOK, text)
}

func (h *Handler) putPackage(r *request) error {
	p, _, err := h.merge(r, entity.Package, func(put *entity.Put, ref entity.Ref, old *entity.Entity) error {
		bound := put.Bound(ref.Path)
		switch {
		case ref.Name == reservedPackage:
			return bad(fmt.Sprintf("Package name '%s' is reserved.", ref.Name))
		case bound == nil:
			return nil
		case old != nil && old.Binding == nil:
			return conflict("Resource is a package and cannot be converted into a binding.")
		}
		return h.checkBinding(r, *bound)
	})
	if err != nil {
		return err
	}
	if err := h.cfg.Catalog.Put(r.Context(), p); err != nil {
		return err
	}
	return r.raw(http.StatusOK, p.Answer())
}

// checkBinding refuses to bind what is no package, or none the caller may use.
func (h *Handler) checkBinding(r *request, bound entity.Ref) error {
	target, err := h.cfg.Catalog.Get(r.Context(), entity.Package, bound)
	switch {
	case errors.Is(err, couchdb.ErrNotFound):
		return bad("Binding references a package that does not exist.")
	case errors.Is(err, entity.ErrOtherKind):
		return conflict("Cannot bind to a resource that is not a package.")
	case err != nil:
		return err
	case target.Binding != nil:
		return bad("Cannot bind to another package binding.")
	}
	return h.mayUse(r, bound.Path, bound.Name)
}

func (h *Handler) deletePackage(r *request) error {
	p, err := h.get(r, entity.Package)
	if err != nil {
		return err
	}
	if p.Binding == nil {
		n, err := h.cfg.Catalog.Count(r.Context(), catalog.Actions, p.ID())
		switch {
		case err != nil:
			return err
		case n == 1:
			return conflict("Package not empty (contains 1 entity)")
		case n > 1:
			return conflict(fmt.Sprintf("Package not empty (contains %d entities)", n))
		}
	}
	return h.deleted(r, p, p.Answer())
}

func (h *Handler) listPackageActions(r *request) error {
	ref := entity.Ref{Path: r.ns, Name: r.PathValue("package")}
	if !activation.ValidName(ref.Name) {
		return bad("The name of the entity contains illegal characters.")
	}
	if err := h.mayUse(r, ref.Path, ref.Name); err != nil {
		return err
	}
	pkg, _, err := h.cfg.Catalog.ResolvePackage(r.Context(), ref)
	if err != nil {
		return err
	}
	return h.list(r, catalog.Actions, pkg.ID())
}
