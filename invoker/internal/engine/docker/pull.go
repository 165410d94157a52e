package docker

import (
	"context"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
	"github.com/moby/moby/api/pkg/authconfig"
	registrytypes "github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// pull fetches an image.
func (e *Engine) pull(ctx context.Context, image string) error {
	return e.roster.Pull(ctx, image, func(ctx context.Context) error { return e.pullNow(ctx, image) })
}

func (e *Engine) pullNow(ctx context.Context, image string) (err error) {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Pull)
	defer cancel()
	if e.options.Steps != nil {
		ended := e.options.Steps("invoker_docker.pull", 0)
		defer func() { ended(err) }()
	}
	e.log.Info("pull image", "image", image)
	login, err := e.login(ctx, image)
	if err != nil {
		return err
	}
	progress, err := e.api.ImagePull(ctx, image, client.ImagePullOptions{RegistryAuth: login})
	if err != nil {
		return err
	}
	if err := progress.Wait(ctx); err != nil {
		return err
	}
	e.forgetImage(image) // the name may mean another one now
	return nil
}

// login asks for the login of a pull, and returns at the latest when ctx ends. A helper
// program is ended then, but its children may live on and keep its output open.
func (e *Engine) login(ctx context.Context, image string) (string, error) {
	type answer struct {
		login string
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		login, err := e.encodedLogin(ctx, image)
		done <- answer{login, err}
	}()
	select {
	case a := <-done:
		return a.login, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("wait for the login: %w", context.Cause(ctx))
	}
}

// encodedLogin returns the login for an image's registry as the daemon takes it, empty if
// none is known.
func (e *Engine) encodedLogin(ctx context.Context, image string) (string, error) {
	server, known, err := e.registries.Login(ctx, image)
	if err != nil || known == auth.EmptyCredential {
		return "", err
	}
	return authconfig.Encode(registrytypes.AuthConfig{
		Username: known.Username, Password: known.Password, ServerAddress: server,
		IdentityToken: known.RefreshToken, RegistryToken: known.AccessToken,
	})
}
