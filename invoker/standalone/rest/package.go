package rest

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/entity"
)

// reservedPackage is the word that stands for no package in the names of web
// actions.
const reservedPackage = "default"

// packages routes .../packages and .../packages/NAME.
func (d *Door) packages(r *request, ns string, path []string) error {
	if len(path) == 0 || len(path) == 1 && path[0] == "" {
		return d.listPackages(r, ns)
	}
	ref, err := entityRef(r, ns, path)
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		return d.getPackage(r, ref)
	case http.MethodPut:
		return d.putPackage(r, ref)
	case http.MethodDelete:
		return d.deletePackage(r, ref)
	case http.MethodPost:
		if path[0] == "refresh" { // of bindings, an operation of old clients
			return notServed(r.URL.Path)
		}
	}
	return notAllowed()
}

// listPackages shows strangers what is shared.
func (d *Door) listPackages(r *request, ns string) error {
	if r.Method != http.MethodGet {
		return notAllowed()
	}
	view := catalog.Packages
	if ns != r.user.Namespace.Name {
		view = catalog.PublicPackages
	}
	return d.listEntities(r, view, ns)
}

// getPackage answers with the package, or with what a binding makes of one,
// and with the actions in it.
func (d *Door) getPackage(r *request, ref entity.Ref) error {
	if err := d.mayUse(r, ref.Path, ref.Name); err != nil {
		return err
	}
	asked, err := d.cfg.Catalog.Package(r.Context(), ref)
	if err != nil {
		return err
	}
	pkg, _, err := d.cfg.Catalog.ResolvePackage(r.Context(), ref)
	if err != nil {
		return err
	}
	summaries, err := d.cfg.Catalog.List(r.Context(), catalog.Actions, pkg.Path(), 0, 0)
	if err != nil {
		return err
	}
	var contents entity.Contents
	for _, s := range summaries {
		if err := contents.Add(s); err != nil {
			return err
		}
	}
	if asked.Binding != nil {
		// A binding shows under its own name, with the parameters of both.
		asked.Parameters = pkg.Parameters
		pkg = asked
	}
	return r.raw(http.StatusOK, pkg.Encode(entity.ForAnswer, &contents))
}

func (d *Door) putPackage(r *request, ref entity.Ref) error {
	if ref.Name == reservedPackage {
		return bad(fmt.Sprintf("Package name '%s' is reserved.", ref.Name))
	}
	if err := r.own(ref.Path); err != nil {
		return err
	}
	body, overwrite, err := r.put()
	if err != nil {
		return err
	}
	put, err := entity.DecodePackagePut(body)
	if err != nil {
		return err
	}
	if err := d.checkBinding(r, put.Bound(r.user.Namespace.Name)); err != nil {
		return err
	}
	p, err := d.mergedPackage(r, ref, put, overwrite)
	if err != nil {
		return err
	}
	if err := d.cfg.Catalog.PutPackage(r.Context(), p); err != nil {
		return err
	}
	return r.raw(http.StatusOK, p.Encode(entity.ForAnswer, nil))
}

// checkBinding refuses to bind what is no package, or none the caller may use.
func (d *Door) checkBinding(r *request, bound *entity.Ref) error {
	if bound == nil {
		return nil
	}
	target, err := d.cfg.Catalog.Package(r.Context(), *bound)
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
	return d.mayUse(r, bound.Path, bound.Name)
}

func (d *Door) mergedPackage(r *request, ref entity.Ref, put *entity.PackagePut, overwrite bool) (*entity.Package, error) {
	old, err := d.cfg.Catalog.Package(r.Context(), ref)
	switch {
	case errors.Is(err, couchdb.ErrNotFound):
		return put.Create(ref, millis())
	case err != nil:
		return nil, err
	case !overwrite:
		return nil, conflict(textExists)
	case old.Binding == nil && put.Bound(ref.Path) != nil:
		return nil, conflict("Resource is a package and cannot be converted into a binding.")
	}
	return put.Update(old, millis())
}

func (d *Door) deletePackage(r *request, ref entity.Ref) error {
	if err := r.own(ref.Path); err != nil {
		return err
	}
	p, err := d.cfg.Catalog.Package(r.Context(), ref)
	if err != nil {
		return err
	}
	if p.Binding == nil {
		n, err := d.cfg.Catalog.Count(r.Context(), catalog.Actions, p.Path())
		if err != nil {
			return err
		}
		if n > 0 {
			word := "entities"
			if n == 1 {
				word = "entity"
			}
			return conflict(fmt.Sprintf("Package not empty (contains %d %s)", n, word))
		}
	}
	if err := d.cfg.Catalog.Delete(r.Context(), &p.Head); err != nil {
		return err
	}
	return r.raw(http.StatusOK, p.Encode(entity.ForAnswer, nil))
}
