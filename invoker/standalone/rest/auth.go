package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/entity"
)

// authenticate finds out who is asking.
func (d *Door) authenticate(r *request) (*activation.Identity, error) {
	uuid, key, ok := r.BasicAuth()
	if !ok {
		return nil, &refusal{http.StatusUnauthorized, "The resource requires authentication, which was not supplied with the request"}
	}
	user, err := d.users.find(r.Context(), uuid, key)
	if errors.Is(err, couchdb.ErrNotFound) {
		return nil, &refusal{http.StatusUnauthorized, "The supplied authentication is invalid"}
	}
	return user, err
}

// keep is for how long an identity is taken from memory: a change of limits or
// keys in the database takes effect after it.
const keep = 10 * time.Second

// users remembers who the last keys belonged to. Every request has a key, and
// looking one up takes two exchanges with the database.
type users struct {
	catalog *catalog.Catalog
	mu      sync.Mutex
	known   map[string]knownUser
}

type knownUser struct {
	user *activation.Identity
	at   time.Time
}

func newUsers(c *catalog.Catalog) *users {
	return &users{catalog: c, known: map[string]knownUser{}}
}

func (u *users) find(ctx context.Context, uuid, key string) (*activation.Identity, error) {
	return u.remember(uuid+":"+key, func() (*activation.Identity, error) { return u.catalog.Identity(ctx, uuid, key) })
}

// owner finds the identity of a namespace. A namespace contains no colon, so
// that it is not taken for a key.
func (u *users) owner(ctx context.Context, namespace string) (*activation.Identity, error) {
	return u.remember(namespace, func() (*activation.Identity, error) { return u.catalog.Owner(ctx, namespace) })
}

func (u *users) remember(name string, look func() (*activation.Identity, error)) (*activation.Identity, error) {
	now := time.Now()
	u.mu.Lock()
	k, ok := u.known[name]
	u.mu.Unlock()
	if ok && now.Sub(k.at) < keep {
		return k.user, nil
	}
	user, err := look()
	if err != nil {
		return nil, err // a key that nobody has is not remembered
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for old, k := range u.known { // few: one per key in use
		if now.Sub(k.at) >= keep {
			delete(u.known, old)
		}
	}
	u.known[name] = knownUser{user, now}
	return user, nil
}

// own refuses a namespace that is not the caller's.
func (r *request) own(ns string) error {
	if ns == r.user.Namespace.Name {
		return nil
	}
	return &refusal{http.StatusForbidden, textForbidden}
}

// mayUse refuses a package of another namespace unless it is shared.
func (d *Door) mayUse(r *request, ns, pkg string) error {
	if ns == r.user.Namespace.Name {
		return nil
	}
	if pkg != "" {
		p, err := d.cfg.Catalog.Package(r.Context(), entity.Ref{Path: ns, Name: pkg})
		switch {
		case err == nil && p.Publish:
			return nil
		case ns == systemNamespace && errors.Is(err, couchdb.ErrNotFound):
			return noSystemPackage(pkg)
		}
	}
	return &refusal{http.StatusForbidden, fmt.Sprintf("The supplied authentication is not authorized to access '%s'.", ns)}
}
