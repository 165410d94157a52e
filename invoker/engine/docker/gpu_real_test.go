package docker

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// greeter sends a word to each client of a socket in a directory that others may pass.
func greeter(t *testing.T, word string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, word)
			conn.Close()
		}
	}()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "a.sock"), 0o666)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What a GPU container gets of the host is there, cannot be written, does not
// follow what the host mounts later, and a socket in it can be talked to,
// with any user of the container. The image has neither a C library nor the
// directories.
func TestRealGPUMounts(t *testing.T) {
	for _, user := range []string{"0", "1001"} {
		t.Run("user "+user, func(t *testing.T) {
			r := startReal(t, func(o *Options) { o.ExtraArgs = map[string][]string{"user": {user}} })
			dir := greeter(t, "hello from the host")
			library := filepath.Join(t.TempDir(), "lib.so")
			if err := os.WriteFile(library, []byte("no library"), 0o644); err != nil {
				t.Fatal(err)
			}
			spec := r.spec()
			spec.GPU = &container.GPU{
				Simulated: true,
				Env:       []string{"LD_PRELOAD=/opt/gpuwhisk/lib.so", "__OW_API_HOST=over"},
				Mounts:    []container.Mount{{Source: library, Target: "/opt/gpuwhisk/lib.so"}, {Source: dir, Target: "/run/gpuwhisk"}},
			}
			h, err := r.Create(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			checkMounts(t, h.Addr)
		})
	}
}

func checkMounts(t *testing.T, addr string) {
	t.Helper()
	a := mustRun(t, addr, map[string]any{"env": "LD_PRELOAD", "read": "/opt/gpuwhisk/lib.so", "write": "/opt/gpuwhisk/lib.so",
		"dial": "/run/gpuwhisk/a.sock"})
	if a.Env != "/opt/gpuwhisk/lib.so" || !slices.Contains(a.Environ, "__OW_API_HOST=over") || slices.Contains(a.Environ, "__OW_API_HOST=https://example") {
		t.Errorf("environment %v", a.Environ)
	}
	if a.Output != "no library" || !refused(a.Written) || a.Received != "hello from the host" {
		t.Errorf("read %q, written %q, received %q", a.Output, a.Written, a.Received)
	}
	a = mustRun(t, addr, map[string]any{"read": "/proc/self/mountinfo", "write": "/run/gpuwhisk/new"})
	if !refused(a.Written) {
		t.Errorf("written to the socket's directory: %q", a.Written)
	}
	for _, target := range []string{"/opt/gpuwhisk/lib.so", "/run/gpuwhisk"} {
		if options := mountOptions(a.Output, target); !strings.HasPrefix(options, "ro,") || strings.Contains(options, "shared:") || strings.Contains(options, "master:") {
			t.Errorf("%s is mounted as %q", target, options)
		}
	}
}

// refused reports that nothing could be written. The kernel looks at the file's
// mode first, which stops all users but root.
func refused(written string) bool {
	return strings.Contains(written, "read-only file system") || strings.Contains(written, "permission denied")
}

// What a container shares with others of its device it may write, its /dev/shm
// among it.
func TestRealSharedMounts(t *testing.T) {
	r := startReal(t, nil)
	shm := t.TempDir()
	spec := r.spec()
	spec.GPU = &container.GPU{Simulated: true, Shared: []container.Mount{{Source: shm, Target: "/dev/shm"}}}
	h, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if a := mustRun(t, h.Addr, map[string]any{"write": "/dev/shm/cuda"}); a.Written != "done" {
		t.Errorf("written: %q", a.Written)
	}
	if text, err := os.ReadFile(filepath.Join(shm, "cuda")); err != nil || string(text) != "x" {
		t.Errorf("on the host: %q, %v", text, err)
	}
}

// mountOptions gives a mount's options and its ties to other mounts
// (proc_pid_mountinfo(5)).
func mountOptions(mountinfo, target string) string {
	for line := range strings.Lines(mountinfo) {
		head, _, _ := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		if len(fields) > 5 && fields[4] == target {
			return strings.Join(fields[5:], " ")
		}
	}
	return ""
}

// A source that is not there is the system's fault, and the operator reads
// which.
func TestRealMissingMount(t *testing.T) {
	r := startReal(t, nil)
	spec := r.spec()
	missing := filepath.Join(t.TempDir(), "libgpuwhisk.so")
	spec.GPU = &container.GPU{Simulated: true, Mounts: []container.Mount{{Source: missing, Target: "/opt/gpuwhisk/libgpuwhisk.so"}}}
	_, err := r.Create(t.Context(), spec)
	var failed *container.CreateError
	if !errors.As(err, &failed) || failed.Blame != container.BlameWhisk || failed.Message != provisionText {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(failed.Err.Error(), missing) || !strings.Contains(failed.Err.Error(), "on the host of the Docker daemon") {
		t.Errorf("the operator reads %v", failed.Err)
	}
}

// imageWith makes the proxy's image anew with variables of its own.
func imageWith(t *testing.T, r *real, name string, env ...string) {
	t.Helper()
	made, err := r.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: r.prefix + "copy", Image: r.spec().Image})
	if err != nil {
		t.Fatal(err)
	}
	defer r.removeOnce(t.Context(), made.ID)
	content, err := r.api.ContainerExport(t.Context(), made.ID, client.ContainerExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	changes := []string{`CMD ["/proxy"]`}
	for _, e := range env {
		changes = append(changes, "ENV "+e)
	}
	if err := importImage(name, content, changes...); err != nil {
		t.Fatal(err)
	}
	// By its id: the name may come to mean another one.
	inspected, err := r.api.ImageInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	r.images = append(r.images, inspected.ID)
}

// steered lists what of a container's environment is not its to say.
func steered(environ []string) []string {
	var names []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); container.SteersFromImage(name) {
			names = append(names, entry)
		}
	}
	slices.Sort(names)
	return names
}

// The variables of an image by which it would choose devices or come before
// the shim do not reach a GPU container, also when the image's name comes to
// mean another one. Other containers have them as in the original.
func TestRealImageEnvironment(t *testing.T) {
	r := startReal(t, nil)
	name := imageName() + "-cuda"
	imageWith(t, r, name, "LD_LIBRARY_PATH=/keep")
	create := func(gpu *container.GPU) []string {
		t.Helper()
		spec := r.spec()
		spec.Image, spec.GPU = name, gpu
		h, err := r.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return mustRun(t, h.Addr, nil).Environ
	}
	gpu := &container.GPU{Simulated: true, Env: []string{"LD_PRELOAD=/shim.so"}}
	if env := create(gpu); !slices.Contains(env, "LD_LIBRARY_PATH=/keep") || !slices.Equal(steered(env), []string{"LD_PRELOAD=/shim.so"}) {
		t.Errorf("environment %v", env)
	}
	evil := []string{"CUDA_MPS_PIPE_DIRECTORY=/tmp/mps", "CUDA_VISIBLE_DEVICES=7", "LD_AUDIT=/evil.so", "LD_PRELOAD=/evil.so", "NVIDIA_VISIBLE_DEVICES=all"}
	imageWith(t, r, name, append([]string{"CUDA_HOME=/cuda"}, evil...)...)
	for range 2 { // known, as it was, and known as it is
		if env := create(gpu); !slices.Contains(env, "CUDA_HOME=/cuda") || !slices.Equal(steered(env), []string{"LD_PRELOAD=/shim.so"}) {
			t.Errorf("environment %v", env)
		}
	}
	if env := create(&container.GPU{Simulated: true}); len(steered(env)) > 0 {
		t.Errorf("without a shim: environment %v", env)
	}
	if env := create(nil); !slices.Equal(steered(env), evil) {
		t.Errorf("without a GPU: environment %v", env)
	}
}
