package docker

import (
	"context"
	"fmt"
	"strings"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/activation/steps"
)

// pull fetches an image. Callers who want the same one share one pull; it goes
// on when one of them gives up.
func (e *Engine) pull(ctx context.Context, image string) error {
	done := e.pulls.DoChan(image, func() (any, error) {
		if !e.enter() {
			return nil, errClosed
		}
		defer e.leave()
		return nil, e.pullNow(steps.Carry(e.base, ctx), image)
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
	ended := steps.Begin(ctx, e.options.Steps, steps.Step{Token: "invoker_docker.pull", Class: "DockerClientWithFileAccess",
		Text: "running docker pull " + image, System: "sid_invokerWarmup"})
	defer func() { ended("", err) }()
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

// login asks for what goes with a pull, and does not wait for longer than the
// context says. A helper program is ended with it, but what that has started may
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

// movesOn tells whether an image reference may mean another image tomorrow: it
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
