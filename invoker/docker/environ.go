package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// environ joins lists of variables. Of several values for a name the last one
// counts: a process that is given two may take either.
func environ(lists ...[]string) []string {
	var joined []string
	at := map[string]int{}
	for _, list := range lists {
		for _, entry := range list {
			name, _, _ := strings.Cut(entry, "=")
			if i, again := at[name]; again {
				joined[i] = entry
				continue
			}
			at[name] = len(joined)
			joined = append(joined, entry)
		}
	}
	return joined
}

// maxImages bounds what is remembered of images; beyond it all is asked again.
const maxImages = 1024

// steering lists the names in an image's environment that a GPU container must
// not get, each as it is asked once per image and remembered. An image that is
// not there has none.
func (e *Engine) steering(ctx context.Context, image string) ([]string, error) {
	e.mu.Lock()
	names, known := e.images[image]
	e.mu.Unlock()
	if known {
		return names, nil
	}
	ctx, cancel := limited(ctx, e.options.Timeouts.Inspect)
	defer cancel()
	result, err := e.api.ImageInspect(ctx, image)
	if cerrdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("inspect image %s: %w", image, err)
	}
	if result.Config != nil {
		for _, entry := range result.Config.Env {
			if name, _, _ := strings.Cut(entry, "="); container.SteersFromImage(name) {
				names = append(names, name)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.images) >= maxImages {
		clear(e.images)
	}
	e.images[image] = names
	return names, nil
}

// forgetImage makes the next GPU container of an image ask for it again.
func (e *Engine) forgetImage(image string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.images, image)
}

// intruder gives a variable that a container has of its image although it must
// not: the name of the image means another one than it did when it was asked.
func intruder(got, asked []string) string {
	for _, entry := range got {
		name, _, set := strings.Cut(entry, "=")
		if set && container.SteersFromImage(name) && !slices.Contains(asked, entry) {
			return name
		}
	}
	return ""
}
