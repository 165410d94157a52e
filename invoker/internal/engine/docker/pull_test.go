package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

// TestPullTolerated: a tagged user image whose pull fails runs from the host's copy, and one
// without a tag where LocalImages is set. The log says so.
func TestPullTolerated(t *testing.T) {
	for image, local := range map[string]bool{"a/b:1": false, "a/b": true} {
		d := startDaemon(t)
		var log bytes.Buffer
		e := d.engine(t, func(o *Options) {
			o.LocalImages, o.Logger = local, slog.New(slog.NewTextHandler(&log, nil))
		})
		d.onPull = pullError
		spec := fakeSpec(1)
		spec.Image, spec.Pull = image, true
		_, err := e.Create(t.Context(), spec)
		check.NoError(t, err)
		check.NoError(t, e.Close())
		check.Contains(t, log.String(), "image cannot be pulled, this host's copy is used", image)
		check.Contains(t, log.String(), "denied", image)
	}
}

// TestMissingImageIsPulled: a missing image of ours is pulled as `docker run` does.
func TestMissingImageIsPulled(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	var pulled atomic.Bool
	d.onPull = func(http.ResponseWriter, string) bool { pulled.Store(true); return false }
	d.onCreate = func(w http.ResponseWriter, _ string) bool {
		if !pulled.Load() {
			refuse(w, 404, "No such image: a/b:1")
			return true
		}
		return false
	}
	_, err := e.Create(t.Context(), fakeSpec(1))
	check.NoError(t, err)
}

// A pull is reported.
func TestPullIsReported(t *testing.T) {
	d := startDaemon(t)
	var reported []string
	e := d.engine(t, func(o *Options) {
		o.Steps = func(step string, _ int) func(error) {
			return func(err error) { reported = append(reported, fmt.Sprintf("%s %t", step, err == nil)) }
		}
	})
	spec := fakeSpec(1)
	spec.Image, spec.Pull = "a/b:1", true
	_, err := e.Create(t.Context(), spec)
	check.NoError(t, err)
	d.onPull = pullError
	spec = fakeSpec(2)
	spec.Image, spec.Pull = "a/c:1", true
	_, err = e.Create(t.Context(), spec)
	check.NoError(t, err)
	check.EqualSlices(t, reported, []string{"invoker_docker.pull true", "invoker_docker.pull false"})
}

// TestPullProgress: the daemon's messages about layers become the progress of a pull.
func TestPullProgress(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	goOn := make(chan struct{})
	d.onPull = func(w http.ResponseWriter, _ string) bool {
		for _, line := range []string{
			`{"status":"Pulling from a/b","id":"1"}`,
			`{"status":"Already exists","progressDetail":{},"id":"aa"}`,
			`{"status":"Downloading","progressDetail":{"current":10,"total":100},"id":"bb"}`,
			`{"status":"Downloading","progressDetail":{"current":7,"total":70},"id":"cc"}`,
			`{"status":"Download complete","progressDetail":{},"id":"cc"}`,
			`{"status":"Extracting","progressDetail":{"current":1,"total":70},"id":"cc"}`,
		} {
			_, _ = fmt.Fprintln(w, line)
		}
		w.(http.Flusher).Flush()
		<-goOn
		return true
	}
	created := make(chan error, 1)
	spec := fakeSpec(1)
	spec.Image, spec.Pull = "a/b:1", true
	go func() {
		_, err := e.Create(t.Context(), spec)
		created <- err
	}()
	until(t, "the progress is known", func() bool {
		pulls := e.Pulls()
		return len(pulls) == 1 && pulls[0].Image == "a/b:1" && pulls[0].Bytes == 80 && pulls[0].Total == 170
	})
	close(goOn)
	check.NoError(t, check.Receive(t, created))
	check.Equal(t, len(e.Pulls()), 0)
}

func TestPullsAreShared(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	var pulls atomic.Int32
	go_ := make(chan struct{})
	d.onPull = func(http.ResponseWriter, string) bool { pulls.Add(1); <-go_; return false }
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range 5 {
		wg.Go(func() {
			spec, c := fakeSpec(i), t.Context()
			spec.Image, spec.Pull = "a/b", true
			if i == 0 {
				c = ctx // gives up: the others go on
			}
			if _, err := e.Create(c, spec); err != nil {
				failed.Add(1)
			}
		})
	}
	until(t, "a pull", func() bool { return pulls.Load() > 0 })
	leave()
	until(t, "the first gives up", func() bool { return failed.Load() == 1 })
	close(go_)
	wg.Wait()
	check.Equal(t, pulls.Load(), 1)
	check.Equal(t, failed.Load(), 1)
}

// logins writes a config.json as docker login does.
func logins(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	check.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
	return dir
}

func basic(login string) string { return base64.StdEncoding.EncodeToString([]byte(login)) }

// A helper program that hangs with its children holds up a pull for as long as that
// may take, and no longer.
func TestLoginHelperThatHangs(t *testing.T) {
	bin := t.TempDir()
	child := filepath.Join(bin, "child")
	script := "#!/bin/sh\nsleep 600 &\necho $! > " + child + ".new && mv " + child + ".new " + child + "\nwait\n"
	check.NoError(t, os.WriteFile(filepath.Join(bin, "docker-credential-hang"), []byte(script), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	d := startDaemon(t)
	e := d.engine(t, func(o *Options) {
		o.Logins = logins(t, `{"credsStore": "hang"}`)
		o.Timeouts.Pull = time.Second
	})
	t.Cleanup(func() {
		text, _ := os.ReadFile(child)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	spec := fakeSpec(1)
	spec.Pull, spec.Image = true, "hello"
	_, err := e.Create(t.Context(), spec)
	check.ErrorIs(t, err, roster.ErrTimeout)
}

// An image of a registry that is not allowed is refused with words that its author
// understands, and no registry is asked.
func TestRegistryNotAllowed(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, func(o *Options) { o.Registries = []string{"registry.example.org"} })
	d.onPull = func(_ http.ResponseWriter, image string) bool {
		t.Errorf("pulled %s", image)
		return false
	}
	spec := fakeSpec(1)
	spec.Image, spec.Pull = "a/b", true
	_, err := e.Create(t.Context(), spec)
	var failed *container.CreateError
	check.That(check.Must(t), errors.As(err, &failed), "error %v, want the developer's", err)
	check.Equal(t, failed.Blame, container.BlameDeveloper)
	check.Contains(t, failed.Message, "not allowed here")
	check.ErrorContains(t, err, "docker.io")
}

// A real registry that asks for a login gives the image to a client that has one.
func TestRegistryWithLogin(t *testing.T) {
	host, login := peertest.Variable(t, "GPUWHISK_TEST_REGISTRY", "registry.sh"), os.Getenv("GPUWHISK_TEST_REGISTRY_LOGIN")
	reference := host + "/" + strings.ReplaceAll(imageName(), "gpuwhisk-test.invalid/", "")
	for _, c := range []struct {
		name, login string
		well        bool
	}{{"with the login", login, true}, {"with none", "", false}, {"with a wrong one", "pull:wrong", false}} {
		dir := t.TempDir()
		if c.login != "" {
			dir = logins(t, `{"auths": {"`+host+`": {"auth": "`+basic(c.login)+`"}}}`)
		}
		r := startReal(t, func(o *Options) { o.Logins = dir })
		if c.well {
			r.publish(reference, login)
		}
		spec := r.spec()
		spec.Image, spec.Pull = reference, true
		h, err := r.Create(t.Context(), spec)
		if c.well {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			enginetest.MustCall(t, h.Addr, nil)
			check.NoError(t, r.Remove(t.Context(), h.ID))
			_, err := r.api.ImageRemove(t.Context(), reference, client.ImageRemoveOptions{Force: true})
			check.NoError(t, err)
		} else {
			check.That(check.Must(t), err != nil, "%s: no refusal", c.name)
			check.Lacks(t, err.Error(), "wrong", "%s: the password", c.name)
		}
	}
}

// publish puts the test's image into a registry and forgets it here.
func (r *real) publish(reference, login string) {
	r.t.Helper()
	local, err := image()
	check.NoError(r.t, err)
	ctx := context.Background()
	_, err = r.api.ImageTag(ctx, client.ImageTagOptions{Source: local, Target: reference})
	check.NoError(r.t, err)
	user, password, _ := strings.Cut(login, ":")
	auth, err := authconfig.Encode(registry.AuthConfig{Username: user, Password: password})
	check.NoError(r.t, err)
	progress, err := r.api.ImagePush(ctx, reference, client.ImagePushOptions{RegistryAuth: auth})
	check.NoError(r.t, err)
	check.NoError(r.t, progress.Wait(ctx))
	_, err = r.api.ImageRemove(ctx, reference, client.ImageRemoveOptions{})
	check.NoError(r.t, err)
}
