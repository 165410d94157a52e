package docker

import (
	"context"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/jsonstream"
	registrytypes "github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// pull fetches an image.
func (e *Engine) pull(ctx context.Context, image string, p *roster.Progress) error {
	login, err := e.login(ctx, image)
	if err != nil {
		return err
	}
	stream, err := e.api.ImagePull(ctx, image, client.ImagePullOptions{RegistryAuth: login})
	if err != nil {
		return err
	}
	layers := layers{}
	for message, err := range stream.JSONMessages(ctx) {
		if err != nil {
			return err
		}
		if message.Error != nil {
			return message.Error
		}
		p.Set(layers.add(message))
	}
	return nil
}

// layers has the arrived bytes and the size of each layer of a pull.
type layers map[string]*jsonstream.Progress

// add takes in a message of the daemon, and returns the sums over all layers.
func (l layers) add(m jsonstream.Message) (done, total int64) {
	switch known := l[m.ID]; {
	case m.Status == "Downloading" && m.Progress != nil:
		l[m.ID] = m.Progress
	case m.Status == "Download complete" && known != nil:
		known.Current = known.Total
	}
	for _, p := range l {
		done, total = done+p.Current, total+p.Total
	}
	return done, total
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
