package rest

import (
	"errors"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// reservedPackage stands for no package in the addresses of web actions, which
// OpenWhisk's controller serves.
const reservedPackage = "default"

// getPackage answers with a package, or with a binding and its resolved package, and
// with the actions in the package.
func (r *request) getPackage() error {
	if err := r.mayUsePackage(r.ref); err != nil {
		return err
	}
	asked, err := r.DB.Entity(r.Context(), entity.Package, r.ref)
	if err != nil {
		return err
	}
	pkg, _, err := r.DB.ResolvePackage(r.Context(), r.ref)
	if err != nil {
		return err
	}
	summaries, err := r.DB.Rows(r.Context(), r.DB.Entities("actions", pkg.ID))
	if err != nil {
		return err
	}
	asked.Parameters = pkg.Parameters // of both, for a binding
	return r.sendJSON(asked.AnswerPackage(summaries))
}

// checkPackage refuses a binding to an entity that is not a package, or that the caller
// may not bind.
func (r *request) checkPackage(made, old *entity.Entity) error {
	bound := made.Bound()
	switch {
	case r.ref.Name == reservedPackage:
		return entity.Bad("Package name '%s' is reserved.", r.ref.Name)
	case made.Binding == old.Binding:
		return nil
	case old.Rev != "" && old.Bound() == nil:
		return conflict("Resource is a package and cannot be converted into a binding.")
	}
	target, err := r.DB.Entity(r.Context(), entity.Package, *bound)
	switch {
	case errors.Is(err, couchdb.ErrNotFound):
		return entity.Bad("Binding references a package that does not exist.")
	case errors.Is(err, entity.ErrOtherKind):
		return conflict("Cannot bind to a resource that is not a package.")
	case err != nil:
		return err
	case target.Bound() != nil:
		return entity.Bad("Cannot bind to another package binding.")
	}
	return r.mayUsePackage(*bound)
}

// checkEmpty refuses to delete a package with actions in it.
func (r *request) checkEmpty(p *entity.Entity) error {
	if p.Bound() != nil {
		return nil
	}
	n, err := r.DB.Count(r.Context(), r.DB.Entities("actions", p.ID))
	switch {
	case err != nil:
		return err
	case n == 1:
		return conflict("Package not empty (contains 1 entity)")
	case n > 1:
		return conflict("Package not empty (contains %d entities)", n)
	}
	return nil
}

func (r *request) listPackageActions() error {
	if err := r.mayUse(r.ref); err != nil {
		return err
	}
	pkg, _, err := r.DB.ResolvePackage(r.Context(), r.ref.PackageRef())
	if err != nil {
		return err
	}
	return r.list("actions", r.DB.Entities("actions", pkg.ID), asItIs)
}
