package invoker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// lasting makes every run take so long, which may change later.
func (env *fixture) lasting(d time.Duration) *atomic.Int64 {
	var lasts atomic.Int64
	lasts.Store(int64(d))
	env.setRun(func(int, []byte) proxy.Exchange {
		env.gpu.log("run")
		pass(time.Duration(lasts.Load()))
		return answer(200, `{}`)
	})
	return &lasts
}

// large puts functions into the store of which the device holds only one.
func (env *fixture) large(names ...string) {
	for _, name := range names {
		env.action(name, annotate(`{"memory":"10 GB"}`))
	}
}

// TestRunStartsWhileItsMemoryComes: where memory comes by itself, a run does
// not wait for the prefetch, and its record has how long that took, or, when
// the run was over sooner, had taken by then.
func TestRunStartsWhileItsMemoryComes(t *testing.T) {
	for _, c := range []struct {
		faults       bool
		runs         time.Duration
		prefetch, ms int64 // prefetchTime, and the time from the call to the result
	}{
		{true, 500 * time.Millisecond, 500, 500},
		{true, 3 * time.Second, 2000, 3000},
		{false, 500 * time.Millisecond, 2000, 2500},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.large("f", "g")
			env.gpu.faults = c.faults
			lasts := env.lasting(0)
			s := env.gpuSettings(1)
			s.Pool.MemoryMB = 64 << 10 // memory that is moved out lies in host memory
			_, stop := env.start(s)
			env.invokeAndWait("f", time.Minute)
			env.invoke("g", nil) // moves f out
			pass(time.Minute)
			lasts.Store(int64(c.runs))
			env.gpu.will(func(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
				if o.Kind == gpu.Prefetch {
					pass(2 * time.Second)
				}
				return env.gpu.carryOut(ctx, o, footprint)
			})
			began := time.Now()
			id := env.invoke("f", nil)
			env.answered(id, 1)
			took := time.Since(began).Milliseconds()
			pass(time.Minute)
			stop()
			n := gpuAnnotation(t, env.record(id))
			check.Equal(t, n.Start, "host-warm", "%+v: answered", c)
			check.Equal(t, n.PrefetchTime, c.prefetch, "%+v: answered", c)
			check.AtLeast(t, took, c.ms, "%+v: answered", c)
			check.AtMost(t, took, c.ms+1, "%+v: answered", c)
			check.Equal(t, n.GPUTime, c.runs.Milliseconds(), "%+v: answered", c)
		})
	}
}

// TestLostAcknowledgementIsAskedAgain: nothing is assumed about an order without an
// answer; it is given again, and the run that needs the memory waits.
func TestLostAcknowledgementIsAskedAgain(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f", "g")
		s := env.gpuSettings(1)
		s.GPU.AckTimeout = 5 * time.Second
		lose := 1
		env.gpu.will(func(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
			if lose--; lose >= 0 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return env.gpu.carryOut(ctx, o, footprint)
		})
		_, stop := env.start(s)
		env.invokeAndWait("f", time.Second)
		began := time.Now()
		id := env.invoke("g", nil)
		env.answered(id, 1)
		took := time.Since(began)
		check.AtLeast(t, took, 2500*time.Millisecond, "the run began")
		check.AtMost(t, took, 3500*time.Millisecond, "the run began")
		stop()
		orders := env.gpu.orders()
		check.Equal(check.Must(t), len(orders), 2)
		check.That(t, !orders[0].Again, "orders %+v", orders)
		check.That(check.Must(t), orders[1].Again, "orders %+v", orders)
		check.Equal(t, orders[1].Epoch, orders[0].Epoch)
		check.Equal(t, env.made, 2)
	})
}

// maxAsked is how often an order is given before its container is given up.
const maxAsked = 2

// TestUnresponsiveContainerIsGivenUp: a container that keeps the device and does not
// answer does not keep it for ever.
func TestUnresponsiveContainerIsGivenUp(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f", "g")
		env.gpu.will(func(context.Context, gpu.Order, int64) (int64, error) { return 0, errors.New("no process there") })
		iv, stop := env.start(env.gpuSettings(1))
		env.invokeAndWait("f", time.Second)
		began := time.Now()
		id := env.invoke("g", nil)
		env.answered(id, 1)
		check.AtMost(t, time.Since(began), defaultAckTimeout+time.Second, "the delay of another function's run")
		pass(time.Minute)
		st := env.status(iv)
		stop()
		rec := env.record(id)
		check.That(check.Must(t), rec != nil, "record %+v after orders %+v", rec, env.gpu.orders())
		check.Equal(t, rec.Response.StatusCode, 0)
		check.Equal(t, len(env.gpu.orders()), maxAsked)
		check.Equal(t, env.removed, 1)
		check.Equal(t, st.Devices[0].Containers, 1)
	})
}

// TestSlowMoveIsNoSilence: a transfer that takes longer than many acknowledgements is waited
// for as long as it gets on. The second one is a whole H200 at the slowest speed that was
// measured there.
func TestSlowMoveIsNoSilence(t *testing.T) {
	for _, c := range []struct {
		memory, perSecond int64
		annotation        string
		orders            int
	}{
		{10 << 30, 1 << 30, `{"memory":"10 GB"}`, 5},
		{141e9, 1.7e9, `{"memory":"130 GB"}`, 42},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate(c.annotation))
			env.action("g", annotate(c.annotation))
			var left atomic.Int64
			left.Store(c.memory)
			env.gpu.will(func(ctx context.Context, o gpu.Order, _ int64) (int64, error) {
				for left.Load() > 0 {
					select {
					case <-time.After(2 * time.Second):
						env.gpu.holds(o.Container, c.memory, max(left.Add(-2*c.perSecond), 0), 0)
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				}
				return o.Bytes, nil
			})
			s := env.gpuSettings(1)
			s.GPU.AckTimeout = 5 * time.Second
			s.GPU.Devices[0].MemoryBytes = c.memory + 6<<30
			_, stop := env.start(s)
			env.invokeAndWait("f", time.Second)
			id := env.invokeAndWait("g", 5*time.Minute)
			env.mu.Lock()
			removed := env.removed
			env.mu.Unlock()
			stop()
			check.That(check.Must(t), env.record(id) != nil, "record %+v, %d containers removed, orders %v", env.record(id), removed, env.gpu.orders())
			check.Equal(t, removed, 0)
			check.Equal(t, len(env.gpu.orders()), c.orders)
		})
	}
}

// TestSilentPrefetchGoesElsewhere: a run that waits for memory which never
// comes runs in another container.
func TestSilentPrefetchGoesElsewhere(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f", "g")
		env.gpu.will(func(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
			if o.Kind == gpu.Prefetch {
				return 0, errors.New("no process there")
			}
			return env.gpu.carryOut(ctx, o, footprint)
		})
		_, stop := env.start(env.gpuSettings(1))
		env.invokeAndWait("f", time.Second)
		env.invokeAndWait("g", time.Second)
		id := env.invokeAndWait("f", 2*maxAsked*defaultAckTimeout)
		stop()
		check.Equal(t, gpuAnnotation(t, env.record(id)).Start, "cold")
		check.Equal(t, env.made, 3)
		check.Equal(t, len(env.kinds(id)), 2)
	})
}

// TestRunCancelsAnEvictionOfItsContainer: the mover's work on it ends, its late
// answer changes nothing, and the memory is ordered back.
func TestRunCancelsAnEvictionOfItsContainer(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", annotate(`{"memory":"6 GB"}`))
		env.large("g")
		env.gpu.faults = true
		cancelled := false
		iv, stop := env.start(env.gpuSettings(1))
		env.invokeAndWait("f", time.Second)
		env.gpu.will(func(ctx context.Context, o gpu.Order, footprint int64) (int64, error) {
			if o.Kind == gpu.Evict {
				<-ctx.Done() // half of the memory had left by then
				cancelled = true
				env.gpu.holds(o.Container, footprint, footprint/2, 0)
				return footprint / 2, nil
			}
			pass(100 * time.Millisecond) // a process sends its reports in order
			return env.gpu.carryOut(ctx, o, footprint)
		})
		// Another program takes memory of the device, so memory must leave, and then not.
		show(iv, 4, gpu.Reading{Utilization: -1, Used: 6<<30 + 400<<20 + 12<<30})
		show(iv, 4, gpu.Reading{Utilization: -1, Used: 6<<30 + 400<<20})
		id := env.invokeAndWait("f", time.Second)
		st := env.status(iv)
		stop()
		var kinds []string
		for _, o := range env.gpu.orders() {
			kinds = append(kinds, o.Kind.String())
		}
		check.Equal(t, gpuAnnotation(t, env.record(id)).Start, "host-warm")
		check.That(check.Must(t), cancelled, "cancelled %t, orders %v", cancelled, kinds)
		check.EqualSlices(t, kinds, []string{"evict", "prefetch"})
		rec := env.record(id)
		check.That(check.Must(t), rec != nil, "record")
		check.Equal(t, st.Devices[0].Resident, 6<<30)
	})
}

// TestProcessThatExitsFreesItsMemory.
func TestProcessThatExitsFreesItsMemory(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f", "g")
		env.gpu.hold = func(name string, need gpu.MemoryRequest) { // the work was done in a child
			env.gpu.report(gpu.MemoryReport{Container: name, PID: 7, Usage: gpu.Usage{Allocated: 10 << 30, Resident: 10 << 30}})
			env.gpu.report(gpu.MemoryReport{Container: name, PID: 7, Exited: true})
		}
		iv, stop := env.start(env.gpuSettings(1))
		one := env.invokeAndWait("f", time.Second)
		check.Equal(t, env.status(iv).Devices[0].Resident, 0)
		two := env.invokeAndWait("g", time.Second)
		three := env.invokeAndWait("f", time.Second)
		stop()
		for _, id := range []activation.ID{one, two, three} {
			check.Equal(t, gpuAnnotation(t, env.record(id)).Memory, 10<<30)
		}
		check.Equal(t, len(env.gpu.orders()), 0)
	})
}
