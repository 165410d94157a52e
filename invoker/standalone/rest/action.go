package rest

import (
	"errors"
	"net/http"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/entity"
)

// actions routes .../actions, .../actions/NAME, .../actions/PACKAGE/ and
// .../actions/PACKAGE/NAME.
func (d *Door) actions(r *request, ns string, path []string) error {
	switch {
	case len(path) == 0 || len(path) == 1 && path[0] == "":
		if r.Method != http.MethodGet {
			return notAllowed()
		}
		if err := r.own(ns); err != nil {
			return err
		}
		return d.listEntities(r, catalog.Actions, ns)
	case len(path) == 2 && path[1] == "":
		return d.listPackageActions(r, ns, path[0])
	case len(path) > 2:
		return notServed(r.URL.Path)
	}
	ref, err := actionRef(ns, path)
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		return d.getAction(r, ref)
	case http.MethodPut:
		return d.putAction(r, ref)
	case http.MethodPost:
		return d.invokeAction(r, ref)
	case http.MethodDelete:
		return d.deleteAction(r, ref)
	}
	return notAllowed()
}

func actionRef(ns string, path []string) (entity.Ref, error) {
	for _, name := range path {
		if err := validName(name); err != nil {
			return entity.Ref{}, err
		}
	}
	if len(path) == 1 {
		return entity.Ref{Path: ns, Name: path[0]}, nil
	}
	return entity.Ref{Path: ns + "/" + path[0], Name: path[1]}, nil
}

// entityRef names an entity that no package holds: a package, trigger or rule.
func entityRef(r *request, ns string, path []string) (entity.Ref, error) {
	if len(path) > 1 {
		return entity.Ref{}, notServed(r.URL.Path)
	}
	return entity.Ref{Path: ns, Name: path[0]}, validName(path[0])
}

func validName(name string) error {
	if !activation.ValidName(name) {
		return bad("The name of the entity contains illegal characters.")
	}
	return nil
}

func millis() int64 { return time.Now().UnixMilli() }

// listEntities answers with summaries, or with how many there are.
func (d *Door) listEntities(r *request, v catalog.View, path string) error {
	p, err := r.page(string(v))
	if err != nil {
		return err
	}
	counting, err := r.flag("count", false)
	if err != nil {
		return err
	}
	name := string(v)
	if v == catalog.PublicPackages {
		name = "packages"
	}
	if counting {
		n, err := d.cfg.Catalog.Count(r.Context(), v, path)
		if err != nil {
			return err
		}
		return r.json(http.StatusOK, map[string]int{name: max(n-p.skip, 0)})
	}
	items, err := d.cfg.Catalog.List(r.Context(), v, path, p.skip, p.limit)
	if err != nil {
		return err
	}
	return r.list(items)
}

func (d *Door) listPackageActions(r *request, ns, name string) error {
	if r.Method != http.MethodGet {
		return notAllowed()
	}
	if err := validName(name); err != nil {
		return err
	}
	if err := d.mayUse(r, ns, name); err != nil {
		return err
	}
	pkg, _, err := d.cfg.Catalog.ResolvePackage(r.Context(), entity.Ref{Path: ns, Name: name})
	if err != nil {
		return err
	}
	return d.listEntities(r, catalog.Actions, pkg.Path())
}

// getAction answers with the action as it would run: the parameters of its
// package and of a binding laid under its own.
func (d *Door) getAction(r *request, ref entity.Ref) error {
	if err := d.mayUse(r, ref.Namespace(), ref.Package()); err != nil {
		return err
	}
	withCode, err := r.flag("code", true)
	if err != nil {
		return err
	}
	a, err := d.cfg.Catalog.Resolve(r.Context(), ref)
	if err != nil {
		return err
	}
	if withCode {
		if err := d.cfg.Catalog.LoadCode(r.Context(), a.Action); err != nil {
			return err
		}
	}
	return r.raw(http.StatusOK, a.Encode(entity.ForAnswer, !withCode))
}

// writable refuses a change to an action that is not the caller's, or that
// lies in a binding.
func (d *Door) writable(r *request, ref entity.Ref) error {
	if err := r.own(ref.Namespace()); err != nil || ref.Package() == "" {
		return err
	}
	pkg, err := d.cfg.Catalog.Package(r.Context(), entity.Ref{Path: ref.Namespace(), Name: ref.Package()})
	if err != nil {
		return err
	}
	if pkg.Binding != nil {
		return bad(textOnBinding)
	}
	return nil
}

func (d *Door) putAction(r *request, ref entity.Ref) error {
	body, overwrite, err := r.put()
	if err != nil {
		return err
	}
	put, err := entity.DecodeActionPut(body, r.user.Namespace.Name, d.cfg.Manifest)
	if err != nil {
		return err
	}
	if err := d.writable(r, ref); err != nil {
		return err
	}
	if put.Exec != nil && put.Exec.IsSequence() {
		if err := d.checkSequence(r, ref, put.Exec.Components); err != nil {
			return err
		}
	}
	a, err := d.merged(r, ref, put, overwrite)
	if err != nil {
		return err
	}
	if err := d.cfg.Catalog.PutAction(r.Context(), a); err != nil {
		return err
	}
	if a.Exec.Code == nil {
		if err := d.cfg.Catalog.LoadCode(r.Context(), a); err != nil {
			return err
		}
	}
	return r.raw(http.StatusOK, a.Encode(entity.ForAnswer, false))
}

func (d *Door) merged(r *request, ref entity.Ref, put *entity.ActionPut, overwrite bool) (*entity.Action, error) {
	bounds := d.cfg.Bounds.For(activation.UserLimits{}, r.user.Limits)
	old, err := d.cfg.Catalog.Action(r.Context(), ref)
	switch {
	case errors.Is(err, couchdb.ErrNotFound):
		return put.Create(ref, bounds, millis())
	case err != nil:
		return nil, err
	case !overwrite:
		return nil, conflict(textExists)
	}
	return put.Update(old, bounds, millis())
}

func (d *Door) deleteAction(r *request, ref entity.Ref) error {
	if err := d.writable(r, ref); err != nil {
		return err
	}
	a, err := d.cfg.Catalog.Action(r.Context(), ref)
	if err != nil {
		return err
	}
	if err := d.cfg.Catalog.LoadCode(r.Context(), a); err != nil && !errors.Is(err, couchdb.ErrNotFound) {
		return err // an action whose code is lost can still be deleted
	}
	if err := d.cfg.Catalog.Delete(r.Context(), &a.Head); err != nil {
		return err
	}
	return r.raw(http.StatusOK, a.Encode(entity.ForAnswer, false))
}

// maxSequence is how many actions a sequence may run, those of nested
// sequences included.
const maxSequence = 50

// checkSequence refuses a sequence that is too long, contains itself or names
// what is not there.
func (d *Door) checkSequence(r *request, self entity.Ref, components []string) error {
	n, err := d.atoms(r, self, components, 0)
	if err == nil && n > maxSequence {
		return bad("Too many actions in the sequence.")
	}
	return err
}

func (d *Door) atoms(r *request, self entity.Ref, components []string, depth int) (int, error) {
	if len(components) > maxSequence || depth > maxSequence {
		return 0, bad("Too many actions in the sequence.")
	}
	total := 0
	for _, name := range components {
		ref, err := entity.ParseRef(name, r.user.Namespace.Name)
		if err != nil {
			return 0, err
		}
		if err := d.mayUse(r, ref.Namespace(), ref.Package()); err != nil {
			return 0, err
		}
		a, err := d.cfg.Catalog.Resolve(r.Context(), ref)
		switch {
		case ref == self || err == nil && a.Ref() == self:
			return 0, bad("Sequence may not refer to itself.")
		case is(err, couchdb.ErrNotFound, entity.ErrOtherKind):
			return 0, bad("Sequence component does not exist.")
		case err != nil:
			return 0, err
		case !a.Exec.IsSequence():
			total++
			continue
		}
		n, err := d.atoms(r, self, a.Exec.Components, depth+1)
		if err != nil {
			return 0, err
		}
		total += n
		if total > maxSequence {
			return total, nil
		}
	}
	return total, nil
}
