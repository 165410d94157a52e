package invoker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestBacklogOfALostDeviceStopsNobody: with a device lost and many times as many
// GPU activations as there are permits, CPU actions run at once; the GPU ones
// end with a reason when their timeout is over, or run when the device is back.
func TestBacklogOfALostDeviceStopsNothingElse(t *testing.T) {
	for _, back := range []bool{true, false} {
		withFixture(t, func(t *testing.T, env *fixture) {
			env.action("cpu", nil)
			env.action("gpu", annotate("true"))
			s := env.gpuSettings(1)
			s.InFlight, s.GPU.DeviceTimeout = 8, 5*time.Minute
			iv, stop := env.start(s)
			iv.DeviceLost(0, "Xid 79")
			const n = 300
			var ids []activation.ID
			for range n {
				ids = append(ids, env.invoke("gpu", nil))
			}
			pass(time.Minute)
			began := time.Now()
			cpu := env.invokeAndWait("cpu", 0)
			rec := env.record(cpu)
			check.That(check.Must(t), rec != nil, "a CPU action waits for a GPU: %+v after %s", rec, time.Since(began))
			check.AtMost(t, time.Since(began), 0, "a CPU action waits for a GPU")
			check.Equal(t, iv.InFlight(), n)
			if back {
				iv.DeviceBack(0)
			}
			pass(5 * time.Minute)
			stop()
			want := "waited 5m0s for a GPU and there was none that could run it (device 0 (test, simulated) is lost: Xid 79)"
			for i, id := range ids {
				rec := env.record(id)
				switch {
				case rec == nil:
					t.Fatalf("activation %d of the backlog never ended", i)
				case back && rec.Response.StatusCode != 0:
					t.Fatalf("activation %d: %+v", i, rec.Response)
				case !back && (rec.Response.StatusCode != activation.StatusApplicationError || !strings.Contains(string(rec.Response.Result), want)):
					t.Fatalf("activation %d: %s, want %q", i, rec.Response.Result, want)
				}
			}
			env.judge(0, n+1)
		})
	}
}

// TestFullBacklogPressesBack: if the GPU backlog is full an activation keeps its common
// permit, so that no more is pulled than allowed, and every activation ends.
func TestFullBacklogPressesBack(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("gpu", annotate("true"))
		env.lasting(time.Second)
		s := env.gpuSettings(1)
		s.InFlight, s.GPU.BacklogBytes = 4, 10*(pendingBytes+2000)
		iv, stop := env.start(s)
		var ids []activation.ID
		for range 40 {
			ids = append(ids, env.invoke("gpu", func(m *activation.Message) {
				m.Content = json.RawMessage(fmt.Sprintf(`"%01998d"`, 0))
			}))
		}
		pass(time.Millisecond)
		check.Equal(t, iv.InFlight(), 14)
		pass(5 * time.Minute)
		n, used := iv.completer.backlog()
		check.Equal(t, iv.InFlight(), 0)
		check.Equal(t, n, 0)
		check.Equal(t, used, 0)
		stop()
		for _, id := range ids {
			check.That(t, env.record(id) != nil, "an activation never ended")
		}
	})
}

// TestOverdueActivationsEnd: an activation that has not begun within the operator's limit
// ends with a reason. Running activations go on.
func TestOverdueActivationsEnd(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("gpu", annotate("true"))
		env.lasting(50 * time.Second)
		s := env.gpuSettings(1)
		s.GPU.Tokens.Max, s.GPU.Overdue = 1, 30*time.Second
		_, stop := env.start(s)
		first := env.invokeAndWait("gpu", time.Second)
		second := env.invokeAndWait("gpu", 31*time.Second)
		rec := env.record(second)
		check.That(check.Must(t), rec != nil, "%+v", rec)
		check.Contains(t, string(rec.Response.Result), "waited 30s for a GPU, longer than anybody waits")
		pass(time.Minute)
		stop()
		env.ok(first)
		env.judge(0, 2)
	})
}
