package docker

import (
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
)

func TestRealHardening(t *testing.T) {
	r := startReal(t, func(o *Options) { o.CapDrop = []string{"ALL"} })
	h := r.create()
	result, err := r.api.ContainerInspect(t.Context(), string(h.ID), client.ContainerInspectOptions{})
	check.NoError(t, err)
	host := result.Container.HostConfig
	check.Equal(t, host.Memory, 128<<20)
	check.Equal(t, host.MemorySwap, host.Memory)
	check.EqualSlices(t, host.CapDrop, []string{"ALL"})
	check.Includes(t, host.SecurityOpt, "no-new-privileges")
	check.Equal(t, host.LogConfig.Type, "json-file")
	check.Equal(t, host.CPUShares, 128)
	check.Equal(t, host.NetworkMode, OwnNetwork)
	check.That(check.Must(t), host.PidsLimit != nil)
	check.Equal(t, *host.PidsLimit, 1024)
	check.Equal(check.Must(t), len(host.Ulimits), 1)
	check.Equal(t, host.Ulimits[0].Hard, 1024)
	enginetest.MustCall(t, h.Addr, nil)
}

// TestRealResize gives a container more memory while it lives, also a frozen one.
func TestRealResize(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	for _, mb := range []int64{256, 384} {
		check.NoError(t, r.Resize(t.Context(), h.ID, mb<<20))
		result, err := r.api.ContainerInspect(t.Context(), string(h.ID), client.ContainerInspectOptions{})
		check.NoError(t, err)
		host := result.Container.HostConfig
		check.Equal(t, host.Memory, mb<<20, "memory %d, with swap %d, want %d MiB", host.Memory, host.MemorySwap, mb)
		check.Equal(t, host.MemorySwap, mb<<20, "memory %d, with swap %d, want %d MiB", host.Memory, host.MemorySwap, mb)
		check.NoError(t, r.Pause(t.Context(), h.ID))
	}
	check.NoError(t, r.Resume(t.Context(), h.ID))
	enginetest.MustCall(t, h.Addr, nil)
	check.NoError(t, r.Remove(t.Context(), h.ID))
	check.ErrorIs(t, r.Resize(t.Context(), h.ID, 512<<20), container.ErrGone, "of a removed container")
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
		check.That(check.Must(t), !time.Now().After(deadline), "left: %v, %v", left, err)
	}
}

// wait lets the work of abandoned creates end.
func (r *real) wait() {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if r.Slots.TryAcquire(int64(r.options.ParallelCreates)) {
			r.Slots.Release(int64(r.options.ParallelCreates))
			return
		}
	}
}
