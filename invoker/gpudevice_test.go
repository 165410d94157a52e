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
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/proxy"
)

// TestLostDeviceIsDrained: what runs there ends at once as the system's fault,
// what waits runs on the other device, and nothing is left on the books.
func TestLostDeviceIsDrained(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		for i := range 4 {
			env.action(fmt.Sprint("f", i), annotate(`{"memory":"9 GB"}`))
		}
		env.stall = func(int) (bool, bool) { return true, true } // no run is ever answered
		env.gpu.hold = func(name string, need gpu.Need) { env.gpu.holds(name, need.Bytes, need.Bytes, 0) }
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
		if d := st.Devices[0]; d.Lost != "Xid 79" || d.Used != 0 || d.Containers != 0 || d.Tokens != 0 || d.InFlight != 0 {
			t.Errorf("the lost device %+v", d)
		}
		if d := st.Devices[1]; d.Lost != "" || d.Containers == 0 {
			t.Errorf("the other device %+v", d)
		}
		rec := env.record(ids[0])
		if rec == nil || rec.Response.StatusCode != activation.StatusWhiskError || !strings.Contains(string(rec.Response.Result), textDeviceLost) {
			t.Errorf("record %+v", rec)
		}
		if took := time.Since(lost); took > time.Second {
			t.Errorf("it was written after %s", took)
		}
		iv.DeviceLost(1, "Xid 48") // ends the second, and no other may begin
		time.Sleep(time.Minute)
		waiting := 0
		for _, f := range env.status(iv).Flows {
			if f.Queued == 1 && strings.Contains(f.Why, "no device") {
				waiting++
			}
		}
		if waiting != 2 {
			t.Errorf("%d wait for a device: %+v", waiting, env.status(iv).Flows)
		}
		env.setStall(nil)
		iv.DeviceBack(0)
		iv.DeviceBack(0)
		time.Sleep(time.Minute)
		if d := env.status(iv).Devices[0]; d.Lost != "" || d.Tokens != 2 || d.Containers == 0 {
			t.Errorf("the device that came back %+v", d)
		}
		stop()
		for _, id := range ids[2:] {
			if n := gpuAnnotation(t, env.record(id)); n.Start != "cold" || !strings.HasPrefix(n.Device, "0 ") || env.record(id).Response.StatusCode != 0 {
				t.Errorf("%+v", n)
			}
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
		if n := gpuAnnotation(t, env.record(id)); n.Device[:1] != "1" || env.record(id).Response.StatusCode != 0 {
			t.Errorf("%+v: %+v", n, env.record(id).Response)
		}
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
			if got := env.status(iv).Devices[0].Lost; got != want {
				t.Errorf("lost %q, want %q", got, want)
			}
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
		if n := gpuAnnotation(t, env.record(id)); n.Start != "cold" || !strings.HasPrefix(n.Device, "0 ") {
			t.Errorf("%+v", n)
		}
		if env.made != 3 || env.removed != 2 {
			t.Errorf("%d containers made, %d removed", env.made, env.removed)
		}
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
			if rec := env.record(id); rec == nil || rec.Response.StatusCode != c.want {
				t.Errorf("%+v: %+v", c, rec)
			}
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

// TestDynamicTokens: D follows what the device shows; a MIG slice has one
// token whatever is configured, and a fixed D stays.
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
			if d[0].Tokens != want0 || d[1].Tokens != want1 || d[0].Utilization == nil || d[1].Utilization != nil || d[0].Measured != nil {
				t.Errorf("utilization %v: %+v", u, d)
			}
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

// TestTokensLearnFromCompany: where two runs at once take longer than one
// after the other, one at a time is what D becomes.
func TestTokensLearnFromCompany(t *testing.T) {
	for slowdown, want := range map[int]int{3: 1, 1: 2} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("f", annotate("true"))
			env.action("g", annotate("true"))
			var at atomic.Int32
			env.run = func(int, []byte) proxy.Exchange {
				at.Add(1)
				defer at.Add(-1)
				time.Sleep(time.Millisecond) // until the one that comes is there
				takes := time.Second
				if at.Load() > 1 {
					takes *= time.Duration(slowdown)
				}
				time.Sleep(takes)
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
			if d := env.status(iv).Devices[0]; d.Tokens != want {
				t.Errorf("slowdown %d: D=%d, want %d", slowdown, d.Tokens, want)
			}
			stop()
		})
	}
}

func TestFixedTokensStay(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		iv, stop := env.start(env.gpuSettings(1))
		show(iv, 60, gpu.Reading{Utilization: 1, Used: -1})
		if d := env.status(iv).Devices[0]; d.Tokens != 2 {
			t.Errorf("%+v", d)
		}
		stop()
		iv.Observe([]gpu.Reading{{Utilization: 1}}) // after the end it has no effect
		iv.DeviceLost(0, "late")
		iv.DeviceBack(0)
	})
}

// TestUnhookedMemoryIsCharged: what a device shows beyond what containers
// answer for is set aside, never while something runs, and given back when it
// is gone; what containers do hold is not counted twice.
func TestUnhookedMemoryIsCharged(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.large("f")
		iv, stop := env.start(env.gpuSettings(1))
		see := func(used, want int64) {
			t.Helper()
			show(iv, 5, gpu.Reading{Utilization: -1, Used: used})
			if d := env.status(iv).Devices[0]; d.Foreign != want || d.Measured == nil || *d.Measured != used {
				t.Errorf("with %d MiB used: %+v", used>>20, d)
			}
		}
		const gb = int64(1 << 30)
		see(63<<20, 0)
		lasts := make(chan bool)
		env.setRun(func(int, []byte) proxy.Exchange { <-lasts; return answer(200, `{}`) })
		env.invokeAndWait("f", time.Second)
		see(11*gb, 0) // it runs: the container may have taken more than it reported
		close(lasts)
		time.Sleep(time.Second)
		resident := 10*gb + 400<<20
		see(resident, 0)
		see(resident+3*gb, 3*gb)
		env.large("g") // needs 10 GB of the 13 that are left, so f's memory goes
		id := env.invokeAndWait("g", time.Minute)
		if env.record(id) == nil || len(env.gpu.orders()) != 1 {
			t.Errorf("record %+v, orders %v", env.record(id), env.gpu.orders())
		}
		see(resident+400<<20, 0)
		see(15*gb, 0) // the driver keeps the permits that f's memory left
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
		if f := env.status(iv).Flows; len(f) != 1 || !strings.Contains(f[0].Why, "does not fit") {
			t.Errorf("%+v", f)
		}
		show(iv, 5, gpu.Reading{Utilization: -1})
		time.Sleep(time.Second)
		stop()
		env.ok(id)
	})
}
