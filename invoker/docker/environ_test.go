package docker

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

func TestEnviron(t *testing.T) {
	got := environ([]string{"A", "B=1"}, []string{"A=2", "C=3", "A=4"}, nil, []string{"B"})
	if want := []string{"A=4", "B", "C=3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := environ(nil, nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

const cudaImage = "nvidia/cuda:13"

func cudaEnv() []string {
	return []string{"PATH=/bin", "LD_LIBRARY_PATH=/usr/local/cuda/lib64", "LD_PRELOAD=/evil.so", "CUDA_VISIBLE_DEVICES=1",
		"CUDA_HOME=/usr/local/cuda", "NVIDIA_VISIBLE_DEVICES=all"}
}

func gpuSpec(n int) container.Spec {
	spec := fakeSpec(n)
	spec.Image = cudaImage
	spec.GPU = &container.GPU{Device: uuid, Env: []string{"LD_PRELOAD=/shim.so"}}
	return spec
}

// An image is asked once, and its containers have what it may say and not what
// it may not.
func TestImageEnvironment(t *testing.T) {
	d := startDaemon(t)
	d.images = map[string][]string{cudaImage: cudaEnv()}
	e := d.engine(t, nil)
	for i := range 3 {
		h, err := e.Create(t.Context(), gpuSpec(i))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"LD_PRELOAD=/shim.so", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES=" + uuid,
			"NVIDIA_DRIVER_CAPABILITIES=compute,utility", "PATH=/bin", "LD_LIBRARY_PATH=/usr/local/cuda/lib64", "CUDA_HOME=/usr/local/cuda"}
		if got := d.containers[string(h.ID)].env; !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
	if n := d.count("GET /v1.41/images/"); n != 1 {
		t.Errorf("the image was asked %d times", n)
	}
}

// An image that is pulled is asked again.
func TestPulledImageIsAskedAgain(t *testing.T) {
	d := startDaemon(t)
	d.images = map[string][]string{cudaImage: nil}
	e := d.engine(t, nil)
	for i := range 2 {
		spec := gpuSpec(i)
		spec.Pull = true
		if _, err := e.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.count("GET /v1.41/images/"); n != 2 {
		t.Errorf("the image was asked %d times", n)
	}
}

// A missing image is pulled, and asked when it is there.
func TestMissingImageIsAskedWhenItIsThere(t *testing.T) {
	d := startDaemon(t)
	d.onCreate = func(w http.ResponseWriter, _ string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.images == nil {
			refuse(w, http.StatusNotFound, "No such image: "+cudaImage)
		}
		return d.images == nil
	}
	d.onPull = func(http.ResponseWriter, string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.images = map[string][]string{cudaImage: cudaEnv()}
		return false
	}
	e := d.engine(t, nil)
	if _, err := e.Create(t.Context(), gpuSpec(1)); err != nil {
		t.Fatal(err)
	}
	if env := d.bodies[0].Env; !slices.Contains(env, "CUDA_VISIBLE_DEVICES") {
		t.Errorf("environment %v", env)
	}
}

// An image whose name means another one than it did is noticed by its first
// container, which is made again.
func TestChangedImage(t *testing.T) {
	d := startDaemon(t)
	d.images = map[string][]string{cudaImage: nil}
	e := d.engine(t, nil)
	if _, err := e.Create(t.Context(), gpuSpec(1)); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.images[cudaImage] = cudaEnv()
	d.mu.Unlock()
	h, err := e.Create(t.Context(), gpuSpec(2))
	if err != nil {
		t.Fatal(err)
	}
	if name := intruder(d.containers[string(h.ID)].env, d.bodies[len(d.bodies)-1].Env); name != "" {
		t.Errorf("the container has the image's %s", name)
	}
	if len(d.bodies) != 3 {
		t.Errorf("%d creates, want 3", len(d.bodies))
	}
}

// An image that changes each time it is looked at is the system's trouble, and
// leaves nothing behind.
func TestImageThatKeepsChanging(t *testing.T) {
	d := startDaemon(t)
	d.images = map[string][]string{cudaImage: nil}
	e := d.engine(t, nil)
	n := 0
	d.onStart = func(_ http.ResponseWriter, id string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		n++
		d.containers[id].env = append(d.containers[id].env, "LD_AUDIT=/evil.so")
		return false
	}
	_, err := e.Create(t.Context(), gpuSpec(1))
	var failed *container.CreateError
	if !errors.As(err, &failed) || failed.Blame != container.BlameWhisk || !errors.Is(err, errChanged) || n != 2 {
		t.Errorf("after %d starts: %v", n, err)
	}
	until(t, "nothing is left", func() bool { return d.names() == "" })
}

// A missing source of a mount and a missing device are not the author's fault.
func TestDeviceErrors(t *testing.T) {
	for words, message := range map[string]string{
		`invalid mount config for type "bind": bind source path does not exist: /opt/shim.so`:                           "create",
		`OCI runtime create failed: nvidia-container-cli: initialization error: open /dev/x: no such file or directory`: "start",
		`CDI device injection failed: failed to stat CDI host device "/dev/nvidia3": no such file or directory`:         "start",
		`error mounting "/run/x" to rootfs at "/run/gpuwhisk": no such file or directory`:                               "start",
	} {
		t.Run(words, func(t *testing.T) {
			d := startDaemon(t)
			d.images = map[string][]string{cudaImage: nil}
			e := d.engine(t, nil)
			refusal := func(w http.ResponseWriter, _ string) bool { refuse(w, http.StatusBadRequest, words); return true }
			if message == "create" {
				d.onCreate = refusal
			} else {
				d.onStart = refusal
			}
			_, err := e.Create(t.Context(), gpuSpec(1))
			var failed *container.CreateError
			if !errors.As(err, &failed) || failed.Blame != container.BlameWhisk || failed.Message != provisionText {
				t.Errorf("%s: got %v", words, err)
			}
		})
	}
}
