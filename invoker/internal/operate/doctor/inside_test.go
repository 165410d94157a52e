package doctor

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

const (
	preload = "/opt/gpuwhisk/libgpuwhisk.so"
	socket  = "/run/gpuwhisk/shim.sock"
)

// TestShimInImages: an image passes if its C library fits and the shim is loaded in an
// action's process.
func TestShimInImages(t *testing.T) {
	finds := func(i Inside, err error) func(*fake) {
		return func(f *fake) {
			f.Arch = runtime.GOARCH
			f.files["lib/libgpuwhisk.so"] = text(string(libraryOf(t, "dlsym")))
			f.ShimImages = []string{pythonImage}
			f.Libc = func(context.Context, string) (docker.Libc, error) {
				return docker.Libc{Name: "glibc", Major: 2, Minor: 36}, nil
			}
			f.Look = func(_ context.Context, ref, library string) (Inside, error) {
				check.Equal(t, ref, pythonImage)
				check.Equal(t, library, "/lib/libgpuwhisk.so")
				return i, err
			}
		}
	}
	musl := func(f *fake) {
		finds(Inside{}, errors.New("it must not run"))(f)
		f.Libc = func(context.Context, string) (docker.Libc, error) { return docker.Libc{Name: "musl"}, nil }
	}
	runTrials(t, []trial{
		{"reached", finds(Inside{preload, socket, true}, nil), "GPU/shim in image", OK, "is loaded into the process of an action", ""},
		{"variables dropped", finds(Inside{}, nil), "GPU/shim in image", Fail, "lacks LD_PRELOAD and GPUWHISK_SHIM_SOCKET", "env of /init"},
		{"the socket dropped", finds(Inside{preload, "", true}, nil), "GPU/shim in image", Fail, "lacks GPUWHISK_SHIM_SOCKET", "env of /init"},
		{"static program", finds(Inside{preload, socket, false}, nil), "GPU/shim in image", Fail, "did not load the library", "glibc"},
		{"no action runs", finds(Inside{}, errEnded), "GPU/shim in image", Warn, "reaches its actions: " + errEnded.Error(), "docker logs"},
		{"musl", musl, "GPU/shim in image", Warn, "has musl", "glibc"},
	})
}

// TestLookFor: the test action is in the language of the image.
func TestLookFor(t *testing.T) {
	for _, c := range []struct {
		ref, part string
		image     docker.Image
	}{
		{"openwhisk/action-python-v3.11:1", "def main(args):", docker.Image{}},
		{"i:1", "def main(args):", docker.Image{Entrypoint: []string{"python3", "/proxy/proxy.py"}}},
		{"i:1", "function main()", docker.Image{Cmd: []string{"/bin/sh", "-c", "node --expose-gc app.js"}}},
		{"i:1", "<?php", docker.Image{Entrypoint: []string{"/bin/proxy"}, Env: []string{"OW_COMPILER=/bin/compile.php"}}},
		{"i:1", "package main", docker.Image{Env: []string{"OW_EXECUTION_ENV=openwhisk/action-golang-v1.24"}}},
		{"i:1", "#!/bin/sh", docker.Image{Entrypoint: []string{"/proxy/native"}}},
	} {
		check.Contains(t, lookFor(c.ref, c.image), c.part, "%s %+v", c.ref, c.image)
	}
}

// TestLookIntoRealImages runs the test actions in real containers under the real shim. A
// static program has the variables, but does not load the shim.
func TestLookIntoRealImages(t *testing.T) {
	c := dockerHost(t)
	tag, err := peertest.Images()
	check.NoError(t, err, "build the action images")
	c.GPU.Shim.Dir, err = os.MkdirTemp("", "gw") // short, because a socket's path is limited to 107 bytes
	check.NoError(t, err)
	defer os.Remove(c.GPU.Shim.Dir)
	library, _ := built(t)
	m := (&Machine{Config: c}).Here("", library, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	static := importImage(t, c, "static", `package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	_ = http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "{\"preload\":%q,\"socket\":%q}", os.Getenv("LD_PRELOAD"), os.Getenv("GPUWHISK_SHIM_SOCKET"))
	}))
}
`)
	for image, want := range map[string]Inside{
		"gpuwhisk/action-python3:" + tag: {preload, socket, true},
		"gpuwhisk/action-nodejs:" + tag:  {preload, socket, true},
		"gpuwhisk/action-native:" + tag:  {preload, socket, true},
		static:                           {preload, socket, false},
	} {
		inside, err := m.look(ctx, image, library)
		check.NoError(t, err, "%s", image)
		check.Equal(t, inside, want, "%s", image)
	}
	_, err = m.look(ctx, "gpuwhisk-test/absent:1", library)
	check.ErrorContains(t, err, "not on this host")
	left := dockerAnswers(t, c, nil, "ps", "--all", "--quiet", "--filter", "name=gpuwhisk-doctor")
	check.Equal(t, strings.TrimSpace(left), "", "containers are left")
}
