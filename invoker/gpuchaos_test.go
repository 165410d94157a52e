package invoker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// TestGPUPathHoldsAgainstEverything combines all faults of GPU memory: lost or late
// acknowledgements, containers that lie about their memory or end at any moment, devices that
// fail and return, and senseless readings. After every event the books are consistent. In the
// end every activation has completed exactly once, and no memory is held.
func TestGPUPathHoldsAgainstEverything(t *testing.T) {
	for seed := range uint64(16) {
		synctest.Test(t, func(t *testing.T) { tempest(t, seed) })
	}
}

// hail is a storm that is about GPUs alone.
type hail struct {
	*storm
	iv      *Invoker
	names   []string // of containers that were prepared
	lost    [2]bool
	devices int
}

func tempest(t *testing.T, seed uint64) {
	h := &hail{storm: &storm{fixture: newFixture(t), r: rand.New(rand.NewPCG(seed, 11))}, devices: 2}
	settings := h.gpuSettings(h.devices)
	settings.GPU.Policy = []string{"mqfq-sticky", "sticky-plus", "fcfs"}[seed%3]
	settings.GPU.AckTimeout = 2 * time.Second
	settings.GPU.Tokens = gpu.DefaultTokens()
	settings.GPU.Tokens.Max, settings.GPU.Tokens.Dynamic = 3, seed%2 == 0
	settings.GPU.Devices[1].MemoryBytes += int64(seed%5) << 31
	settings.GPU.Pool.Size = 2 + int(seed%7)
	settings.Pool.MemoryMB = 1024 << (seed % 3)
	settings.Bounds.Concurrency.Max = 3
	h.functions()
	h.failures()
	h.gpu.faults = seed%4 < 2
	h.gpu.move, h.gpu.hold = h.moves, h.holds
	h.gpu.prepare = h.prepared
	var log bytes.Buffer
	if seed%4 == 0 {
		settings.GPU.Record = &log
	}
	iv, stop := h.start(settings, func(iv *Invoker) { iv.dispatch.inspect = func() { h.check(iv.dispatch.gpus, seed) } })
	h.iv = iv
	const n = 300
	for range n {
		h.call()
		h.strike()
	}
	for i := range h.devices {
		iv.DeviceBack(i)
	}
	for range 3 * 60 {
		time.Sleep(time.Minute)
		iv.Observe([]gpu.Reading{{Device: 0}, {Device: 1}})
	}
	status := h.status(iv)
	check.Equal(check.Must(t), status.InFlight, 0, "seed %d: in flight %d\n%+v\n%+v\n%+v", seed, status.InFlight, status.Devices, status.Flows, status.Containers)
	for _, d := range status.Devices {
		check.Equal(t, d.Used, 0, "seed %d: an idle device holds", seed)
		check.Equal(t, d.Containers, 0, "seed %d: an idle device holds", seed)
		check.Equal(t, d.InFlight, 0, "seed %d: an idle device holds", seed)
	}
	stop()
	h.judge(seed, n)
	if seed%4 == 0 {
		replay(t, log.Bytes(), n)
	}
	for name, open := range h.gpu.open {
		check.Equal(t, open, 0, "seed %d: %d runs of %s have begun and not ended", seed, open, name)
	}
}

// replay feeds the GPU scheduler's log to a GPU scheduler again, which must order the same.
func replay(t *testing.T, log []byte, least int) {
	t.Helper()
	again := &scheduler.Replay{}
	for line := range bytes.Lines(log) {
		check.NoError(t, again.Line(line))
	}
	check.AtLeast(t, again.Events, least)
	check.AtLeast(t, again.Orders, least)
}

func (h *hail) functions() {
	annotations := []string{
		`{"memory":"6 GB"}`, `{"memory":"9 GB","concurrency":3}`, `{"memory":"2 GB","shim":"off"}`,
		`{"memory":"1 GB","shim":"count","concurrency":2}`, `true`, `{"memory":"16 GB"}`,
	}
	for i, annotation := range annotations {
		h.action(fmt.Sprint("g", i), func(a *activation.Action) {
			annotate(annotation)(a)
			a.Limits.Concurrency = 3
		})
	}
}

// call invokes a function and waits a little.
func (h *hail) call() {
	name, blocking := fmt.Sprint("g", h.pick(6)), h.roll(2)
	h.invoke(name, func(m *activation.Message) { m.Blocking = blocking })
	time.Sleep(h.nap(200))
	if h.roll(25) {
		time.Sleep(h.nap(60_000))
	}
}

func (h *hail) pick(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.r.IntN(n)
}

// strike does something bad.
func (h *hail) strike() {
	switch h.pick(12) {
	case 0:
		h.mu.Lock()
		id := container.ID(fmt.Sprint("id", 1+h.r.IntN(h.made+1)))
		h.mu.Unlock()
		h.diedC <- id
	case 1:
		i := h.pick(h.devices)
		if h.lost[i] = !h.lost[i]; h.lost[i] {
			h.iv.DeviceLost(i, "a test")
		} else {
			h.iv.DeviceBack(i)
		}
	case 2, 3:
		seen := gpu.Reading{Device: h.pick(4) - 1, Utilization: float64(h.pick(150))/100 - 0.2, Used: int64(h.pick(20)-1) << 30}
		for range h.pick(8) {
			h.iv.Observe([]gpu.Reading{seen, {Device: 0, Utilization: -1, Used: -1}})
		}
	case 4:
		h.mu.Lock()
		names := h.names
		h.mu.Unlock()
		if len(names) > 0 {
			h.lie(names[h.pick(len(names))])
		}
	}
}

func (h *hail) prepared(name, _ string) error {
	h.mu.Lock()
	h.names = append(h.names, name)
	h.mu.Unlock()
	if h.roll(30) {
		return errors.New("no socket")
	}
	return nil
}

// holds reports a container's memory, mostly truthfully.
func (h *hail) holds(name string, need gpu.MemoryRequest) {
	if h.roll(6) {
		h.lie(name)
		return
	}
	h.gpu.holds(name, need.Bytes/2, need.Bytes/2, need.Context)
}

func (h *hail) lie(name string) {
	sizes := []int64{0, 1, 1 << 30, 16 << 30, 17 << 30, 1 << 48, 1 << 60, 1<<63 - 1, -1, -1 << 63}
	size := func() int64 { return sizes[h.pick(len(sizes))] }
	h.gpu.report(gpu.MemoryReport{
		Container: name, PID: h.pick(3), Exited: h.roll(4),
		Usage: gpu.Usage{Allocated: size(), Resident: size(), Context: size() >> h.pick(40)},
	})
}

// moves carries orders out in all the ways in which it can go wrong.
func (h *hail) moves(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
	switch h.pick(10) {
	case 0:
		return 0, errors.New("no process there")
	case 1: // the acknowledgement is lost
		<-ctx.Done()
		return 0, ctx.Err()
	case 2: // it is late, and maybe not wanted any more
		time.Sleep(h.nap(9000))
		h.gpu.holds(o.Container, footprint, 0, 0)
		return o.Bytes, nil
	case 3: // nothing moved, and nothing is reported about it
		return -5, nil
	}
	select {
	case <-time.After(h.nap(2500)):
	case <-ctx.Done():
		return 1, ctx.Err()
	}
	return h.gpu.carryOut(ctx, o, footprint)
}

// check compares the GPU scheduler's books with an own count, and the invoker's state with the
// GPU scheduler's.
func (h *hail) check(g *gpuScheduler, seed uint64) {
	if h.t.Failed() {
		return // once is enough
	}
	if err := g.core.Check(); err != nil {
		h.t.Errorf("seed %d: %v", seed, err)
	}
	st := g.core.Stats()
	check.Equal(h.t, st.Containers, len(g.containers), "seed %d: the scheduler", seed)
	check.Equal(h.t, len(g.containers), len(g.named), "seed %d: the scheduler", seed)
	runs := 0
	for _, ctr := range g.containers {
		runs += len(ctr.gpu.runs)
	}
	check.Equal(h.t, runs, len(g.runs), "seed %d", seed)
	if runs%3 == 0 {
		h.checkSnapshot(g, seed)
	}
}

// checkSnapshot compares the snapshot with the state of each container.
func (h *hail) checkSnapshot(g *gpuScheduler, seed uint64) {
	all := g.d.snapshot().Containers
	seen := map[string]ContainerStatus{}
	for _, c := range all {
		seen[c.Name] = *c
	}
	n := len(g.d.containers)
	for _, ctr := range g.containers {
		s, ok := g.core.Container(ctr.gpu.id)
		if n++; ok && seen[ctr.name] != *ctr.status(s) {
			h.t.Errorf("seed %d: %+v is shown of %+v", seed, seen[ctr.name], *ctr.status(s))
		}
	}
	check.Equal(h.t, n, len(all), "seed %d", seed)
}
