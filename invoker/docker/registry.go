package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// errRegistry is an image of a registry that the operator does not allow.
var errRegistry = errors.New("registry is not allowed")

// registries knows which registries images may be pulled from, and what each
// wants to see first.
type registries struct {
	allowed []string // empty: any
	logins  credentials.Store
}

// newRegistries reads the logins of a directory as `docker login` leaves them
// in its config.json: names and passwords, tokens, and the helper programs that
// keep them. A file that is not there is one without logins.
func newRegistries(dir string, allowed []string) (registries, error) {
	r := registries{allowed: allowed}
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

// login is what goes with a pull of an image, empty where its registry is not
// known; errRegistry where images may not come from it.
func (r registries) login(ctx context.Context, image string) (string, error) {
	name, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", err // an image that nobody can pull
	}
	host := reference.Domain(name)
	if len(r.allowed) > 0 && !slices.Contains(r.allowed, host) {
		return "", fmt.Errorf("%w: %s", errRegistry, host)
	}
	if r.logins == nil {
		return "", nil
	}
	server := credentials.ServerAddressFromRegistry(host)
	known, err := r.logins.Get(ctx, server)
	if err != nil {
		return "", fmt.Errorf("find the login for registry %s: %w", host, err)
	}
	if known == auth.EmptyCredential {
		return "", nil
	}
	return authconfig.Encode(registry.AuthConfig{
		Username: known.Username, Password: known.Password, ServerAddress: server,
		IdentityToken: known.RefreshToken, RegistryToken: known.AccessToken,
	})
}
