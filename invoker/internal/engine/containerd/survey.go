package containerd

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Survey is the report of a daemon about itself.
type Survey struct {
	Socket, Version string
	Snapshotters    []string // that work
	Namespaces      []string
	Containers      int // of all invokers
}

// Inspect asks the daemon for a survey. It changes nothing.
func Inspect(ctx context.Context, o Options, files fs.FS) (Survey, error) {
	s := Survey{Socket: FindSocket(files, o.Socket)}
	api, err := connect(s.Socket)
	if err != nil {
		return s, err
	}
	defer api.Close()
	ctx = namespaces.WithNamespace(ctx, Namespace)
	version, err := api.Version(ctx)
	if err != nil {
		return s, fmt.Errorf("ask containerd at %s for its version: %w: %w", s.Socket, container.ErrAway, err)
	}
	s.Version = version.Version
	loaded, err := api.IntrospectionService().Plugins(ctx, `type==io.containerd.snapshotter.v1`)
	if err != nil {
		return s, fmt.Errorf("list containerd's plugins: %w", err)
	}
	for _, plugin := range loaded.Plugins {
		if plugin.InitErr == nil {
			s.Snapshotters = append(s.Snapshotters, plugin.ID)
		}
	}
	if s.Namespaces, err = api.NamespaceService().List(ctx); err != nil {
		return s, fmt.Errorf("list containerd's namespaces: %w", err)
	}
	found, err := search(ctx, api, "")
	s.Containers = len(found)
	return s, err
}

// MissingPlugins returns the CNI plugins that the engine needs and that no directory has.
func MissingPlugins(files fs.FS, dirs []string) []string {
	return slices.DeleteFunc([]string{"bridge", "host-local", "loopback"}, func(name string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool {
			_, err := fs.Stat(files, strings.TrimPrefix(path.Join(dir, name), "/"))
			return err == nil
		})
	})
}
