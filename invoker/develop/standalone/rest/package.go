package rest

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// reservedPackage stands for no package in the names of web actions.
const reservedPackage = "default"

func (h *Handler) packages() collection {
	return collection{kind: entity.Package, check: h.checkPackage, unlink: h.checkEmpty, answer: plainAnswer}
}

// listPackages lists all packages to their user, and to others those that are
// shared.
func (h *Handler) listPackages(r *request) error {
	if r.own(r.ns) != nil {
		return h.list(r, catalog.PublicPackages, r.ns)
	}
	return h.list(r, catalog.Packages, r.ns)
}

// getPackage answers with the package, or with what a binding makes of one,
// and with the actions in it.
func (h *Handler) getPackage(r *request) error {
	if err := h.mayUsePackage(r, r.ref); err != nil {
		return err
	}
	asked, err := h.cfg.Catalog.Get(r.Context(), entity.Package, r.ref)
	if err != nil {
		return err
	}
	pkg, _, err := h.cfg.Catalog.ResolvePackage(r.Context(), r.ref)
	if err != nil {
		return err
	}
	summaries, err := h.cfg.Catalog.Rows(r.Context(), h.cfg.Catalog.Entities(catalog.Actions, pkg.ID()))
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

func (h *Handler) checkPackage(r *request, put *entity.Put, old *entity.Entity) error {
	bound := put.Bound(r.ref.Path)
	switch {
	case r.ref.Name == reservedPackage:
		return bad(fmt.Sprintf("Package name '%s' is reserved.", r.ref.Name))
	case bound == nil:
		return nil
	case old != nil && old.Binding == nil:
		return conflict("Resource is a package and cannot be converted into a binding.")
	}
	target, err := h.cfg.Catalog.Get(r.Context(), entity.Package, *bound)
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
	return h.mayUsePackage(r, *bound)
}

// checkEmpty refuses to delete a package with actions in it.
func (h *Handler) checkEmpty(r *request, p *entity.Entity) error {
	if p.Binding != nil {
		return nil
	}
	n, err := h.cfg.Catalog.Count(r.Context(), h.cfg.Catalog.Entities(catalog.Actions, p.ID()))
	switch {
	case err != nil:
		return err
	case n == 1:
		return conflict("Package not empty (contains 1 entity)")
	case n > 1:
		return conflict(fmt.Sprintf("Package not empty (contains %d entities)", n))
	}
	return nil
}

func (h *Handler) listPackageActions(r *request) error {
	if err := h.mayUse(r, r.ref); err != nil {
		return err
	}
	pkg, _, err := h.cfg.Catalog.ResolvePackage(r.Context(), r.ref.PackageRef())
	if err != nil {
		return err
	}
	return h.list(r, catalog.Actions, pkg.ID())
}
