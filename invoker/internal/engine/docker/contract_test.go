package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
)

func TestRealContract(t *testing.T) {
	enginetest.Run(t, contractHost(t))
}

func BenchmarkRealLife(b *testing.B) { enginetest.Benchmark(b, contractHost(b)) }

func contractHost(t testing.TB) enginetest.Host {
	host := realHost(t)
	proxy, err := image()
	check.NoError(t, err)
	api, err := Options{Host: host}.connect()
	check.NoError(t, err)
	var made []string // ids of images, because a name may come to mean another image
	t.Cleanup(func() {
		for _, id := range made {
			_, err := api.ImageRemove(context.Background(), id, client.ImageRemoveOptions{Force: true, PruneChildren: true})
			check.NoError(t, err)
		}
		check.NoError(t, api.Close())
	})
	return enginetest.Host{
		Image: proxy, NotApart: unfiltered(""),
		Open: func(t testing.TB, s enginetest.Settings) enginetest.Engine {
			o := DefaultOptions()
			o.Host, o.LogWaits = host, enginetest.Waits()
			o.Prefix, o.CapDrop, o.PidsLimit, o.MaxLogBytes, o.ExtraArgs = s.Prefix, s.CapDrop, s.PidsLimit, s.MaxLogBytes, s.ExtraArgs
			awaitsEnds(&o)
			e, err := New(context.Background(), o)
			check.NoError(t, err)
			return e
		},
		ImageWith: func(t testing.TB, tag string, command []string, env ...string) string {
			root, err := enginetest.ProxyTar()
			check.NoError(t, err)
			name := imageName() + "-" + tag
			argv, err := json.Marshal(command)
			check.NoError(t, err)
			changes := []string{"CMD " + string(argv)}
			for _, entry := range env {
				changes = append(changes, "ENV "+entry)
			}
			check.NoError(t, importImage(name, bytes.NewReader(root), changes...))
			inspected, err := api.ImageInspect(t.Context(), name)
			check.NoError(t, err)
			made = append(made, inspected.ID)
			return name
		},
		Vanish: func(t testing.TB, id container.ID) {
			_, err := api.ContainerRemove(t.Context(), string(id), client.ContainerRemoveOptions{Force: true})
			check.NoError(t, err)
		},
	}
}

// awaitsEnds has the engine wait for the event of each end before it reports the
// cause: how late a busy daemon sends it is chance.
func awaitsEnds(o *Options) { o.Timeouts.Settle = time.Minute }
