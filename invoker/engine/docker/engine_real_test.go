package docker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

func TestRealLife(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	if a := mustRun(t, h.Addr, map[string]any{"env": "__OW_API_HOST"}); a.Env != "https://example" {
		t.Errorf("got environment %q", a.Env)
	}
	if err := r.Pause(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Pause(t.Context(), h.ID); err != nil {
		t.Errorf("pause again: %v", err)
	}
	if err := r.Resume(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Resume(t.Context(), h.ID); err != nil {
		t.Errorf("resume again: %v", err)
	}
	mustRun(t, h.Addr, nil)
	if r.OOMKilled(t.Context(), h.ID) {
		t.Error("a healthy container was killed for memory")
	}
	for range 2 {
		if err := r.Remove(t.Context(), h.ID); err != nil {
			t.Error(err)
		}
	}
	for name, op := range map[string]func() error{
		"pause":  func() error { return r.Pause(t.Context(), h.ID) },
		"resume": func() error { return r.Resume(t.Context(), h.ID) },
	} {
		if err := op(); !errors.Is(err, container.ErrGone) {
			t.Errorf("%s of a removed container: got %v", name, err)
		}
	}
}

func TestRealHardening(t *testing.T) {
	r := startReal(t, func(o *Options) { o.CapDrop = []string{"ALL"} })
	h := r.create()
	result, err := r.api.ContainerInspect(t.Context(), string(h.ID), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	host := result.Container.HostConfig
	switch {
	case host.Memory != 128<<20 || host.MemorySwap != host.Memory:
		t.Errorf("memory %d, with swap %d", host.Memory, host.MemorySwap)
	case host.PidsLimit == nil || *host.PidsLimit != 1024:
		t.Errorf("pids limit %v", host.PidsLimit)
	case !slices.Equal(host.CapDrop, []string{"ALL"}):
		t.Errorf("dropped %v", host.CapDrop)
	case !slices.Contains(host.SecurityOpt, "no-new-privileges"):
		t.Errorf("security options %v", host.SecurityOpt)
	case len(host.Ulimits) != 1 || host.Ulimits[0].Hard != 1024:
		t.Errorf("ulimits %v", host.Ulimits)
	case host.LogConfig.Type != "json-file" || host.CPUShares != 128 || host.NetworkMode != "bridge":
		t.Errorf("log %v, shares %d, network %s", host.LogConfig, host.CPUShares, host.NetworkMode)
	}
	mustRun(t, h.Addr, nil)
}

// TestRealResize gives a container more memory while it lives, also a frozen one.
func TestRealResize(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	for _, mb := range []int64{256, 384} {
		if err := r.Resize(t.Context(), h.ID, mb<<20); err != nil {
			t.Fatal(err)
		}
		result, err := r.api.ContainerInspect(t.Context(), string(h.ID), client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if host := result.Container.HostConfig; host.Memory != mb<<20 || host.MemorySwap != mb<<20 {
			t.Errorf("memory %d, with swap %d, want %d MiB", host.Memory, host.MemorySwap, mb)
		}
		if err := r.Pause(t.Context(), h.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Resume(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	mustRun(t, h.Addr, nil)
	if err := r.Remove(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Resize(t.Context(), h.ID, 512<<20); !errors.Is(err, container.ErrGone) {
		t.Errorf("of a removed container: %v", err)
	}
}

func TestRealRemovePaused(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	if err := r.Pause(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if left, err := r.search(t.Context(), r.prefix); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// awaitsEnds has the engine wait for the event of each end before it reports the
// cause: how late a busy daemon sends it is chance.
func awaitsEnds(o *Options) { o.Timeouts.Settle = time.Minute }

func TestRealOOM(t *testing.T) {
	r := startReal(t, awaitsEnds)
	h := r.create()
	if _, err := run(t, h.Addr, map[string]any{"allocate": 400}); err == nil {
		t.Fatal("400 MiB fit into 128")
	}
	began := time.Now()
	if !r.OOMKilled(t.Context(), h.ID) {
		t.Error("the OOM kill was not noticed")
	}
	t.Logf("noticed after %v", time.Since(began))
	if id := r.awaitDeath(); id != h.ID {
		t.Errorf("died: %s, want %s", id, h.ID)
	}
}

func TestRealExit(t *testing.T) {
	r := startReal(t, awaitsEnds)
	h := r.create()
	if _, err := run(t, h.Addr, map[string]any{"stdout": []string{"last words\n"}, "exit": 3}); err == nil {
		t.Fatal("an answer from the dead")
	}
	if r.OOMKilled(t.Context(), h.ID) {
		t.Error("an exit was taken for an OOM kill")
	}
	got := r.Logs(t.Context(), h.ID, container.LogRequest{LimitBytes: 1 << 20, Failed: true, Now: time.Now()})
	if len(got.Lines) != 2 || !strings.HasSuffix(got.Lines[0], "stdout: last words") || got.Incomplete {
		t.Errorf("got %+v", got)
	}
	if id := r.awaitDeath(); id != h.ID {
		t.Errorf("died: %s, want %s", id, h.ID)
	}
	if err := r.Pause(t.Context(), h.ID); !errors.Is(err, container.ErrGone) {
		t.Errorf("pause of a stopped container: got %v", err)
	}
}

func TestRealForkBomb(t *testing.T) {
	r := startReal(t, func(o *Options) { o.PidsLimit = 64 })
	h := r.create()
	a := mustRun(t, h.Addr, map[string]any{"fork": 200})
	if a.Started >= 64 {
		t.Errorf("%d processes in a container that may have 64", a.Started)
	}
	mustRun(t, r.create().Addr, nil) // others are not affected
}

func TestRealRemovedBehindOurBack(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	_, err := r.api.ContainerRemove(t.Context(), string(h.ID), client.ContainerRemoveOptions{Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if id := r.awaitDeath(); id != h.ID {
		t.Errorf("died: %s, want %s", id, h.ID)
	}
	if err := r.Pause(t.Context(), h.ID); !errors.Is(err, container.ErrGone) {
		t.Errorf("pause: got %v", err)
	}
	got := r.Logs(t.Context(), h.ID, container.LogRequest{LimitBytes: 1 << 20, WaitForSentinel: true})
	if len(got.Lines) != 1 || !got.Incomplete {
		t.Errorf("logs: got %+v", got)
	}
	if err := r.Remove(t.Context(), h.ID); err != nil {
		t.Errorf("remove: %v", err)
	}
}

func TestRealCreateFailures(t *testing.T) {
	r := startReal(t, nil)
	rootfs, err := tarOf("real_test.go")
	if err != nil {
		t.Fatal(err)
	}
	noProgram := imageName() + "-empty"
	if err := importImage(noProgram, rootfs, `CMD ["/nothing"]`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = r.api.ImageRemove(context.Background(), noProgram, client.ImageRemoveOptions{Force: true})
	})
	const provision = "Failed to provision resources to run the action."
	absent := "gpuwhisk-test.invalid/none"
	cases := []struct {
		name, image string
		pull        bool
		blame       container.Blame
		message     string
	}{
		{"no such program", noProgram, false, container.BlameDeveloper, "executable file not found in image " + noProgram},
		{"managed image is missing", absent + ":1", false, container.BlameWhisk, provision},
		{"pull fails", absent, true, container.BlameDeveloper, "Failed to pull container image '" + absent + "'."},
		{"pull and run fail", absent + ":1", true, container.BlameDeveloper, "Failed to pull container image '" + absent + ":1'."},
		{"bad reference", "UPPER CASE", false, container.BlameWhisk, provision},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			spec := r.spec()
			spec.Image, spec.Pull = c.image, c.pull
			_, err := r.Create(t.Context(), spec)
			var failed *container.CreateError
			if !errors.As(err, &failed) {
				t.Fatalf("got %v, want a CreateError", err)
			}
			if failed.Blame != c.blame || failed.Message != c.message {
				t.Errorf("got blame %d, %q (%v)\nwant %d, %q", failed.Blame, failed.Message, failed.Err, c.blame, c.message)
			}
		})
	}
}

// A user's image with a tag that does not move may be the host's own copy.
func TestRealPullToleratedWhenImageIsThere(t *testing.T) {
	r := startReal(t, nil)
	spec := r.spec()
	spec.Pull = true
	h, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, h.Addr, nil)
}

func TestRealTimedOutCreateLeavesNothing(t *testing.T) {
	r := startReal(t, func(o *Options) { o.Timeouts.Create = 30 * time.Millisecond })
	spec := r.spec()
	if h, err := r.Create(t.Context(), spec); err == nil {
		t.Skipf("the daemon made %s within the limit", h.Name)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		r.wait()
		left, err := r.search(t.Context(), r.prefix)
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left: %v, %v", left, err)
		}
	}
}

// wait lets the work of abandoned creates end.
func (r *real) wait() {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if r.creates.TryAcquire(int64(r.options.ParallelCreates)) {
			r.creates.Release(int64(r.options.ParallelCreates))
			return
		}
	}
}

func TestRealParallel(t *testing.T) {
	r := startReal(t, func(o *Options) { o.ParallelCreates = 3 })
	specs := make([]container.Spec, 8)
	for i := range specs {
		specs[i] = r.spec()
	}
	var wg sync.WaitGroup
	for _, spec := range specs {
		wg.Go(func() {
			h, err := r.Create(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			mustRun(t, h.Addr, nil)
		})
	}
	wg.Wait()
	if err := r.CleanUp(t.Context(), r.prefix); err != nil {
		t.Error(err)
	}
}

func TestRealCleanUpKeepsOthers(t *testing.T) {
	r := startReal(t, nil)
	spec := r.spec()
	spec.Name = r.prefix + "1_a"
	other := r.spec()
	other.Name = r.prefix + "10_x" + spec.Name // holds the prefix in its middle
	for _, s := range []container.Spec{spec, other} {
		if _, err := r.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.CleanUp(t.Context(), r.prefix+"1_"); err != nil {
		t.Fatal(err)
	}
	left, err := r.search(t.Context(), r.prefix)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v, want one", left, err)
	}
}
