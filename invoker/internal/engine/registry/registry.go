// Package registry knows from which registries images may be pulled, and with which
// logins.
package registry

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// MovesOn reports whether an image reference may mean another image tomorrow: it
// has no tag, or the tag "latest". Such an image must be pulled; for any other
// the copy on the host will do when the registry is away.
func MovesOn(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	name := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, found := strings.Cut(name, ":")
	return !found || tag == "latest"
}

// ErrNotAllowed is an image of a registry that the operator does not allow.
var ErrNotAllowed = errors.New("registry is not allowed")

// Registries is which registries images may be pulled from, and the login of each.
type Registries struct {
	allowed []string // empty: any
	logins  credentials.Store
}

// New reads the logins of a directory as `docker login` leaves them
// in its config.json: names and passwords, tokens, and the helper programs that
// keep them. A file that is not there is one without logins.
func New(dir string, allowed []string) (Registries, error) {
	r := Registries{allowed: allowed}
	if dir == "" {
		return r, nil
	}
	file := filepath.Join(dir, "config.json")
	store, err := credentials.NewStore(file, credentials.StoreOptions{})
	if err != nil {
		return r, fmt.Errorf("read registry logins in %s: %w", file, err)
	}
	r.logins = store
	return r, nil
}

// Login returns the login for the registry of an image. It is empty if none is known. The
// error is ErrNotAllowed if images may not come from that registry.
func (r Registries) Login(ctx context.Context, image string) (server string, login auth.Credential, err error) {
	name, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", login, err // an image that cannot be pulled
	}
	host := reference.Domain(name)
	if len(r.allowed) > 0 && !slices.Contains(r.allowed, host) {
		return "", login, fmt.Errorf("%w: %s", ErrNotAllowed, host)
	}
	if r.logins == nil {
		return "", login, nil
	}
	server = credentials.ServerAddressFromRegistry(host)
	if login, err = r.logins.Get(ctx, server); err != nil {
		return "", login, fmt.Errorf("find the login for registry %s: %w", host, err)
	}
	return server, login, nil
}
