package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// pull fetches an image. Callers that want the same one share one pull; it goes
// on when one of them gives up.
func (e *Engine) pull(ctx context.Context, image string) error {
	done := e.pulls.DoChan(image, func() (any, error) {
		if !e.enter() {
			return nil, errClosed
		}
		defer e.leave()
		return nil, e.pullNow(e.base, image)
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("pull image %s: %w", image, context.Cause(ctx))
	}
}

func (e *Engine) pullNow(ctx context.Context, image string) (err error) {
	ctx, cancel := limited(ctx, e.options.Timeouts.Pull)
	defer cancel()
	if e.options.Steps != nil {
		ended := e.options.Steps("invoker_docker.pull", 0)
		defer func() { ended(err) }()
	}
	e.log.Info("pull image", "image", image)
	login, err := e.login(ctx, image)
	if err != nil {
		return fmt.Errorf("pull image %s: %w", image, err)
	}
	progress, err := e.api.ImagePull(ctx, image, client.ImagePullOptions{RegistryAuth: login})
	if err != nil {
		return fmt.Errorf("pull image %s: %w", image, err)
	}
	if err := progress.Wait(ctx); err != nil {
		return fmt.Errorf("pull image %s: %w", image, err)
	}
	e.forgetImage(image) // the name may mean another one now
	return nil
}

// login asks for what goes with a pull, and waits no longer than the context
// allows. A helper program is ended with it, but what that has started may
// live on and keep its output open.
func (e *Engine) login(ctx context.Context, image string) (string, error) {
	type answer struct {
		login string
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		login, err := e.registries.login(ctx, image)
		done <- answer{login, err}
	}()
	select {
	case a := <-done:
		return a.login, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("wait for the login: %w", context.Cause(ctx))
	}
}

// movesOn reports whether an image reference may mean another image tomorrow: it
// has no tag, or the tag "latest". Such an image must be pulled; for any other
// the copy on the host will do when the registry is away.
func movesOn(image string) bool {
	if strings.Contains(image, "@") {
		return false
	}
	name := image[strings.LastIndexByte(image, '/')+1:]
	_, tag, found := strings.Cut(name, ":")
	return !found || tag == "latest"
}

// errRegistry is an image of a registry that the operator does not allow.
var errRegistry = errors.New("registry is not allowed")

// registries is which registries images may be pulled from, and the login of each.
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
		return "", err // an image that cannot be pulled
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
