package containerd

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	dockerconfig "github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// measureEvery is how often the progress of a pull is measured.
const measureEvery = time.Second

// pull fetches an image.
func (e *Engine) pull(ctx context.Context, image string, p *roster.Progress) error {
	ctx = e.in(ctx)
	name, err := fullName(image)
	if err != nil {
		return err
	}
	server, login, err := e.registries.Login(ctx, image)
	if err != nil {
		return err
	}
	parts := parts{all: map[digest.Digest]ocispec.Descriptor{}}
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { e.measure(watch, &parts, p) })
	_, err = e.api.Pull(ctx, name, client.WithPullUnpack, client.WithPullSnapshotter(e.options.Snapshotter),
		client.WithImageHandlerWrapper(parts.record), client.WithResolver(e.resolverOf(ctx, server, login)))
	stop()
	watching.Wait()
	return err
}

// resolverOf asks the registries that the node's files name for an image, with the login for
// its own registry, which the mirrors do not get. A host without a login of the invoker gets
// the login that containerd's own configuration has for it.
func (e *Engine) resolverOf(ctx context.Context, server string, login auth.Credential) remotes.Resolver {
	hosts := dockerconfig.HostOptions{Credentials: func(host string) (string, string, error) {
		switch {
		case credentials.ServerAddressFromHostname(host) != server || login == auth.EmptyCredential:
			return e.nodeLogins.of(host)
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

// parts are the parts of an image, as its manifests list them.
type parts struct {
	mu  sync.Mutex
	all map[digest.Digest]ocispec.Descriptor
}

// record returns a handler that also records the parts that h finds.
func (p *parts) record(h images.Handler) images.Handler {
	return images.HandlerFunc(func(ctx context.Context, of ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		found, err := h.Handle(ctx, of)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, part := range found {
			p.all[part.Digest] = part
		}
		return found, err
	})
}

func (p *parts) list() []ocispec.Descriptor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.all))
}

// measure reports how much of an image has arrived, until ctx ends.
func (e *Engine) measure(ctx context.Context, parts *parts, to *roster.Progress) {
	store := e.api.ContentStore()
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var done, total int64
		for _, part := range parts.list() {
			total += part.Size
			if arriving, err := store.Status(ctx, remotes.MakeRefKey(ctx, part)); err == nil {
				done += arriving.Offset
			} else if _, err := store.Info(ctx, part.Digest); err == nil {
				done += part.Size
			}
		}
		to.Set(done, total)
	}
}
