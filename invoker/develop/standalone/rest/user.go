package rest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// authenticate finds the user of the request's key.
func (r *request) authenticate() (err error) {
	uuid, key, ok := r.BasicAuth()
	if !ok {
		return entity.Refuse(http.StatusUnauthorized, "The resource requires authentication, which was not supplied with the request")
	}
	r.user, err = r.identity(r.Context(), uuid, key)
	if errors.Is(err, couchdb.ErrNotFound) {
		return entity.Refuse(http.StatusUnauthorized, "The supplied authentication is invalid")
	}
	return err
}

// keep is for how long an identity is taken from memory, since every request has a
// key, and a lookup takes two exchanges with the database: a change of limits or
// keys there takes effect after it.
const keep = 10 * time.Second

type knownUser struct {
	user   *activation.Identity
	readAt time.Time
}

// identity finds the user of a key.
func (h *Handler) identity(ctx context.Context, uuid, key string) (*activation.Identity, error) {
	name := uuid + ":" + key
	if k, ok := h.known.Load(name); ok && time.Since(k.(knownUser).readAt) < keep {
		return k.(knownUser).user, nil
	}
	user, err := h.DB.Identity(ctx, uuid, key)
	if err != nil {
		h.known.Delete(name)
		return nil, err
	}
	h.known.Store(name, knownUser{user, time.Now()})
	return user, nil
}

// own refuses a namespace that is not the caller's.
func (r *request) own(ns string) error {
	if ns == r.user.Namespace.Name {
		return nil
	}
	return entity.Refuse(http.StatusForbidden, "The supplied authentication is not authorized to access this resource.")
}

// mayUse refuses an action of another namespace unless its package is shared.
func (r *request) mayUse(action entity.Ref) error { return r.mayUsePackage(action.PackageRef()) }

// mayUsePackage refuses a package of another namespace unless the package is shared.
// The name is empty for entities outside of packages.
func (r *request) mayUsePackage(pkg entity.Ref) error {
	if pkg.Path == r.user.Namespace.Name {
		return nil
	}
	if pkg.Name != "" {
		p, err := r.DB.Entity(r.Context(), entity.Package, pkg)
		switch {
		case err == nil && p.Publish:
			return nil
		case pkg.Path == controller.SystemNamespace && errors.Is(err, couchdb.ErrNotFound):
			return noSystemPackage(pkg.Name)
		}
	}
	return entity.Refuse(http.StatusForbidden, "The supplied authentication is not authorized to access '%s'.", pkg.Path)
}
