package containerd

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	dockerconfig "github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// progressEvery is how often the progress of a pull is logged.
const progressEvery = 5 * time.Second

// pull fetches an image.
func (e *Engine) pull(ctx context.Context, image string) error {
	return e.roster.Pull(ctx, image, func(ctx context.Context) error { return e.pullNow(e.in(ctx), image) })
}

func (e *Engine) pullNow(ctx context.Context, image string) (err error) {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.Pull)
	defer cancel()
	if e.options.Steps != nil {
		ended := e.options.Steps("invoker_containerd.pull", 0)
		defer func() { ended(err) }()
	}
	name, err := fullName(image)
	if err != nil {
		return err
	}
	server, login, err := e.registries.Login(ctx, image)
	if err != nil {
		return err
	}
	e.log.Info("pull image", "image", image)
	began := time.Now()
	watch, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.logProgress(watch, image)
	}()
	_, err = e.api.Pull(ctx, name, client.WithPullUnpack, client.WithPullSnapshotter(e.options.Snapshotter), client.WithResolver(e.resolverOf(ctx, server, login)))
	stop()
	<-ended
	if err != nil {
		return err
	}
	e.log.Info("pulled image", "image", image, "seconds", time.Since(began).Seconds())
	return nil
}

// resolverOf asks the registries that the node's files name for an image, with the login for
// its own registry, which the mirrors do not get.
func (e *Engine) resolverOf(ctx context.Context, server string, login auth.Credential) remotes.Resolver {
	hosts := dockerconfig.HostOptions{Credentials: func(host string) (string, string, error) {
		switch {
		case credentials.ServerAddressFromHostname(host) != server:
			return "", "", nil
		case login.RefreshToken != "":
			return "", login.RefreshToken, nil // an identity token
		}
		return login.Username, login.Password, nil
	}}
	if e.options.HostsDir != "" {
		hosts.HostDir = dockerconfig.HostDirFromRoot(e.options.HostsDir)
	}
	return docker.NewResolver(docker.ResolverOptions{Hosts: dockerconfig.ConfigureHosts(ctx, hosts)})
}

// logProgress logs how much of an image has arrived, until ctx ends.
func (e *Engine) logProgress(ctx context.Context, image string) {
	for tick := time.NewTicker(progressEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		active, err := e.api.ContentStore().ListStatuses(ctx)
		if err != nil {
			continue
		}
		var have, total int64
		for _, s := range active {
			have, total = have+s.Offset, total+s.Total
		}
		e.log.Info("pulling image", "image", image, "downloading", len(active), "megabytes", have>>20, "of", total>>20)
	}
}
