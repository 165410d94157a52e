package invoker

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// TestLostDeviceIsDrained: runs on the lost device end at once as the system's fault, waiting
// activations run on the other device, and the books are empty in the end.
func TestLostDeviceIsDrained(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		for i := range 4 {
			env.action(fmt.Sprint("f", i), annotate(`{"memory":"9 GB"}`))
		}
		env.stall = func(int) (bool, bool) { return true, true } // no run is ever answered
		env.gpu.hold = func(name string, need gpu.MemoryRequest) { env.gpu.holds(name, need.Bytes, need.Bytes, 0) }
		iv, stop := env.start(env.gpuSettings(2))
		var ids []activation.ID
		for i := range 4 { // two run, two wait for memory or a token
			ids = append(ids, env.invoke(fmt.Sprint("f", i), nil))
			time.Sleep(time.Second)
		}
		lost := time.Now()
		iv.DeviceLost(0, "Xid 79")
		iv.DeviceLost(0, "again")
		iv.DeviceLost(7, "never there")
		time.Sleep(time.Millisecond)
		st := env.status(iv)
		d := st.Devices[0]
		check.Equal(t, d.Lost, "Xid 79", "the lost device")
		check.Equal(t, d.Used, 0, "the lost device")
		check.Equal(t, d.Containers, 0, "the lost device")
		check.Equal(t, d.Tokens, 0, "the lost device")
		check.Equal(t, d.InFlight, 0, "the lost device")
		d = st.Devices[1]
		check.Equal(t, d.Lost, "", "the other device")
		check.That(t, d.Containers != 0, "the other device %+v", d)
		rec := env.record(ids[0])
		check.That(check.Must(t), rec != nil, "record %+v", rec)
		check.Equal(t, rec.Response.StatusCode, activation.StatusWhiskError)
		check.Contains(t, string(rec.Response.Result), textDeviceLost)
		check.AtMost(t, time.Since(lost), time.Second, "it was written")
		iv.DeviceLost(1, "Xid 48") // ends the second, and no other may begin
		time.Sleep(time.Minute)
		waiting := 0
		for _, f := range env.status(iv).Flows {
			if f.Queued == 1 && strings.Contains(f.Why, "no device") {
				waiting++
			}
		}
		check.Equal(t, waiting, 2, "%d wait for a device: %+v", waiting, env.status(iv).Flows)
		env.setStall(nil)
		iv.DeviceBack(0)
		iv.DeviceBack(0)
		time.Sleep(time.Minute)
		d = env.status(iv).Devices[0]
		check.Equal(t, d.Lost, "", "the device that came back")
		check.Equal(t, d.Tokens, 2, "the device that came back")
		check.That(t, d.Containers != 0, "the device that came back %+v", d)
		stop()
		for _, id := range ids[2:] {
			n := gpuAnnotation(t, env.record(id))
			check.Equal(t, n.Start, "cold")
			check.That(check.Must(t), strings.HasPrefix(n.Device, "0 "), "%+v", n)
			check.Equal(t, env.record(id).Response.StatusCode, 0)
		}
		env.judge(0, len(ids))
	})
}

// TestContainerThatCannotBeMadeOnALostDevice: the device explains it, so the
// activation goes to another one.
func TestContainerThatCannotBeMadeOnALostDevice(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", annotate("true"))
		env.create = func(s container.Spec) error {
			time.Sleep(time.Second)
			if s.GPU.Index == 0 {
				return &container.CreateError{Message: "no such device", Err: errors.New("no such device")}
			}
			return nil
		}
		iv, stop := env.start(env.gpuSettings(2))
		id := env.invokeAndWait("f", 500*time.Millisecond)
		iv.DeviceLost(0, "x")
		time.Sleep(time.Minute)
		stop()
		check.Equal(t, gpuAnnotation(t, env.record(id)).Device[:1], "1")
		check.Equal(t, env.record(id).Response.StatusCode, 0)
		env.judge(0, 1)
	})
}

// TestDeviceAndDaemonAreLostApart: a device whose daemon is back stays out
// while it is lost itself, and the other way round.
func TestDeviceAndDaemonAreLostApart(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		iv, stop := env.start(env.gpuSettings(1))
		defer stop()
		lost := func(want string) {
			t.Helper()
			synctest.Wait()
			check.Equal(t, env.status(iv).Devices[0].Lost, want)
		}
		iv.DaemonLost(0, "daemon ended")
		lost("daemon ended")
		iv.DeviceLost(0, "Xid 79")
		iv.DaemonBack(0)
		lost("Xid 79")
		iv.DaemonLost(0, "daemon ended")
		iv.DeviceBack(0)
		lost("daemon ended")
		iv.DaemonBack(0)
		lost("")
	})
}

// TestIdleDeviceIsLost: warm containers go with their device, and an
// activation that was on its way into one runs elsewhere.
func TestIdleDeviceIsLost(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("f", annotate("true"))
		env.create = func(container.Spec) error { time.Sleep(time.Second); return nil }
		iv, stop := env.start(env.gpuSettings(2))
		env.invokeAndWait("f", 500*time.Millisecond)
		iv.DeviceLost(0, "gone while a container was made there")
		time.Sleep(time.Minute)
		iv.DeviceBack(0)
		iv.DeviceLost(1, "gone with an idle container")
		time.Sleep(time.Second)
		id := env.invokeAndWait("f", time.Minute)
		stop()
		n := gpuAnnotation(t, env.record(id))
		check.Equal(t, n.Start, "cold")
		check.That(t, strings.HasPrefix(n.Device, "0 "), "%+v", n)
		check.Equal(t, env.made, 3)
		check.Equal(t, env.removed, 2)
		env.judge(0, 2)
	})
}

// TestAnswerOfALostDevice: a result that was given stays, and a failure that
// the device's end explains is the system's, whatever the action called it.
func TestAnswerOfALostDevice(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   int
	}{
		{200, `{"ok":true}`, activation.StatusSuccess},
		{200, `{"error":"CUDA error 999"}`, activation.StatusWhiskError},
		{502, `{"error":"CUDA error 999"}`, activation.StatusWhiskError},
	} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate("true"))
			var iv *Invoker
			env.run = func(int, []byte) proxy.Exchange {
				iv.DeviceLost(0, "now")
				time.Sleep(time.Millisecond)
				return answer(c.status, c.body)
			}
			_, stop := env.start(env.gpuSettings(1), func(i *Invoker) { iv = i })
			id := env.invokeAndWait("f", time.Minute)
			stop()
			rec := env.record(id)
			check.That(check.Must(t), rec != nil, "%+v: %+v", c, rec)
			check.Equal(t, rec.Response.StatusCode, c.want, "%+v", c)
		})
	}
}

// show has devices show the same several times, every 200 ms.
func show(iv *Invoker, times int, readings ...gpu.Reading) {
	for range times {
		iv.Observe(readings)
		pass(200 * time.Millisecond)
	}
}

// TestDynamicTokens: D follows the device's utilization. A MIG slice always has one token, and
// a fixed D stays.
func TestDynamicTokens(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		s := env.gpuSettings(2)
		s.GPU.Tokens = gpu.DefaultTokens()
		s.GPU.Tokens.Max, s.GPU.Tokens.Dynamic = 4, true
		s.GPU.Devices[1].Sharing = gpu.MIGSlice
		iv, stop := env.start(s)
		see := func(u float64, want0, want1 int) {
			t.Helper()
			show(iv, 60, gpu.Reading{Device: 0, Utilization: u, Used: -1}, gpu.Reading{Device: 1, Utilization: -1, Used: -1}, gpu.Reading{Device: 9})
			d := env.status(iv).Devices
			check.Equal(t, d[0].Tokens, want0, "utilization %v", u)
			check.Equal(t, d[1].Tokens, want1, "utilization %v", u)
			check.That(check.Must(t), d[0].Utilization != nil, "utilization %v: %+v", u, d)
			check.That(t, d[1].Utilization == nil, "utilization %v: %+v", u, d)
			check.That(t, d[0].Measured == nil, "utilization %v: %+v", u, d)
		}
		see(0.2, 4, 1)
		see(1, 1, 1)
		see(0.2, 4, 1)
		iv.DeviceLost(0, "x")
		see(1, 0, 1)
		iv.DeviceBack(0)
		see(1, 1, 1)
		stop()
	})
}

// TestTokensLearnFromCompany: D becomes one if two concurrent runs take longer than two runs
// in turn.
func TestTokensLearnFromCompany(t *testing.T) {
	for slowdown, want := range map[int]int{3: 1, 1: 2} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate("true"))
			env.action("g", annotate("true"))
			var at atomic.Int32
			env.run = func(int, []byte) proxy.Exchange {
				at.Add(1)
				defer at.Add(-1)
				pass(time.Second)
				if at.Load() > 1 {
					pass(time.Duration(slowdown-1) * time.Second)
				}
				return answer(200, `{}`)
			}
			s := env.gpuSettings(1)
			s.GPU.Tokens = gpu.DefaultTokens()
			s.GPU.Tokens.Dynamic, s.GPU.Tokens.MinSamples = true, 3
			iv, stop := env.start(s)
			for range 3 {
				env.invokeAndWait("f", time.Minute)
				env.invokeAndWait("g", time.Minute)
			}
			for range 3 {
				env.invoke("f", nil)
				env.invokeAndWait("g", time.Minute)
			}
			check.Equal(t, env.status(iv).Devices[0].Tokens, want, "slowdown %d: D", slowdown)
			stop()
		})
	}
}

func TestFixedTokensStay(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		iv, stop := env.start(env.gpuSettings(1))
		show(iv, 60, gpu.Reading{Utilization: 1, Used: -1})
		check.Equal(t, env.status(iv).Devices[0].Tokens, 2)
		stop()
		iv.Observe([]gpu.Reading{{Utilization: 1}}) // after the end it has no effect
		iv.DeviceLost(0, "late")
		iv.DeviceBack(0)
	})
}

// TestUnhookedMemoryIsCharged: memory that a device shows beyond the containers' reports is
// set aside, never during a run, and released when it is gone. The containers' own memory is
// not counted twice.
func TestUnhookedMemoryIsCharged(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f")
		iv, stop := env.start(env.gpuSettings(1))
		see := func(used, want int64) {
			t.Helper()
			show(iv, 5, gpu.Reading{Utilization: -1, Used: used})
			d := env.status(iv).Devices[0]
			check.Equal(t, d.Foreign, want, "with %d MiB used", used>>20)
			check.That(check.Must(t), d.Measured != nil, "with %d MiB used: %+v", used>>20, d)
			check.Equal(t, *d.Measured, used, "with %d MiB used", used>>20)
		}
		const gb = int64(1 << 30)
		see(63<<20, 0)
		lasts := make(chan bool)
		env.setRun(func(int, []byte) proxy.Exchange { <-lasts; return answer(200, `{}`) })
		env.invokeAndWait("f", time.Second)
		see(11*gb, 0) // during a run: the container may have taken more than it reported
		close(lasts)
		time.Sleep(time.Second)
		resident := 10*gb + 400<<20
		see(resident, 0)
		see(resident+3*gb, 3*gb)
		env.large("g") // needs 10 GB of the 13 that are left, so f's memory goes
		id := env.invokeAndWait("g", time.Minute)
		check.That(check.Must(t), env.record(id) != nil, "record %+v, orders %v", env.record(id), env.gpu.orders())
		check.Equal(t, len(env.gpu.orders()), 1)
		see(15*gb, 0) // the driver may keep the pages of f's memory that moved out
		see(resident+400<<20, 0)
		see(15*gb, 15*gb-resident-400<<20) // the driver had released the pages, so this is another program's memory
		stop()
	})
}

// TestDeviceTakenByOthers: an activation waits, with a reason, while others
// hold the memory that it needs, and runs when that is gone.
func TestDeviceTakenByOthers(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f")
		iv, stop := env.start(env.gpuSettings(1))
		show(iv, 5, gpu.Reading{Utilization: -1, Used: 12 << 30})
		id := env.invokeAndWait("f", time.Hour)
		f := env.status(iv).Flows
		check.Equal(check.Must(t), len(f), 1)
		check.Contains(t, f[0].Why, "does not fit")
		show(iv, 5, gpu.Reading{Utilization: -1})
		time.Sleep(time.Second)
		stop()
		env.ok(id)
	})
}
