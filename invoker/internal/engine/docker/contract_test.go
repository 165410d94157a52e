package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
)

func TestRealContract(t *testing.T) {
	if why := unfiltered(""); why != "" {
		t.Skip("this machine's kernel lets containers reach each other: " + why)
	}
	enginetest.Run(t, contractHost(t))
}

func BenchmarkRealLife(b *testing.B) { enginetest.Benchmark(b, contractHost(b)) }

func contractHost(t testing.TB) enginetest.Host {
	host := realHost(t)
	proxy, err := image()
	check.NoError(t, err)
	images := 0
	return enginetest.Host{
		Image: proxy,
		Open: func(t testing.TB, s enginetest.Settings) enginetest.Engine {
			o := DefaultOptions()
			o.Host, o.LogWaits = host, enginetest.Waits()
			o.Prefix, o.CapDrop, o.PidsLimit, o.MaxLogBytes = s.Prefix, s.CapDrop, s.PidsLimit, s.MaxLogBytes
			awaitsEnds(&o)
			e, err := New(context.Background(), o)
			check.NoError(t, err)
			return e
		},
		ImageWith: func(t testing.TB, command []string, env ...string) string {
			root, err := enginetest.ProxyTar()
			check.NoError(t, err)
			images++
			name := fmt.Sprintf("%s-contract%d", imageName(), images)
			argv, err := json.Marshal(command)
			check.NoError(t, err)
			changes := []string{"CMD " + string(argv)}
			for _, entry := range env {
				changes = append(changes, "ENV "+entry)
			}
			check.NoError(t, importImage(name, bytes.NewReader(root), changes...))
			api, err := Options{Host: host}.connect()
			check.NoError(t, err)
			t.Cleanup(func() {
				_, _ = api.ImageRemove(context.Background(), name, client.ImageRemoveOptions{Force: true})
				_ = api.Close()
			})
			return name
		},
		Vanish: func(t testing.TB, id container.ID) {
			api, err := Options{Host: host}.connect()
			check.NoError(t, err)
			defer api.Close()
			_, err = api.ContainerRemove(t.Context(), string(id), client.ContainerRemoveOptions{Force: true})
			check.NoError(t, err)
		},
	}
}
