package invoker

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// forwarding is a world with one GPU action whose invoker has no GPU, but a
// topic of invokers that do.
func forwarding(t *testing.T) (*world, Settings) {
	w := newWorld(t)
	w.action("f", annotate("true"))
	s := w.settings()
	s.GPU.ForwardTo = "gpus"
	return w, s
}

// What is passed on leaves no ack and no record here, and tells whose slot it
// takes.
func TestForwardWithoutDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := forwarding(t)
		_, stop := w.start(s)
		id := w.invoke("f", nil)
		synctest.Wait()
		stop()
		if len(w.forwarded) != 1 || w.forwarded[0].topic != "gpus" || len(w.acks) != 0 || len(w.records) != 0 || len(w.done) != 1 {
			t.Fatalf("%d forwarded, %d acks, %d records, done %v", len(w.forwarded), len(w.acks), len(w.records), w.done)
		}
		m, err := activation.DecodeMessage(w.forwarded[0].message)
		if err != nil {
			t.Fatal(err)
		}
		if m.ActivationID != id || m.Forwarded == nil || m.Forwarded.Hops != 1 || m.Forwarded.Instance.String() != s.Instance.String() {
			t.Errorf("passed on as %+v, forwarded %+v", m, m.Forwarded)
		}
	})
}

// The ack of what was passed on frees the slot that the controller took.
func TestForwardedIsAckedForItsFirstInvoker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, logs := range []int{0, 10} {
			w := newWorld(t)
			w.action("f", func(a *activation.Action) { a.Limits.LogsMB = logs })
			_, stop := w.start(w.settings())
			first := activation.Instance{ID: 7, UniqueName: "7", UserMemory: 1 << 30}
			for _, blocking := range []bool{true, false} {
				w.invoke("f", func(m *activation.Message) {
					m.Blocking, m.Forwarded = blocking, &activation.Forwarded{Instance: first, Hops: 1}
				})
			}
			synctest.Wait()
			stop()
			freed := 0
			for _, a := range w.acks {
				if a.FreesSlot() {
					freed++
					if a.Instance.String() != first.String() {
						t.Errorf("%s ack of %s", a.Kind, a.Instance)
					}
				}
			}
			if freed != 2 {
				t.Errorf("%d acks free a slot, want 2", freed)
			}
		}
	})
}

// What cannot be passed on is answered here, once, with the reason.
func TestForwardThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			err  error
			hops int
			want string
		}{
			"refused":  {err: errors.New("topic authorization failed"), want: "topic authorization failed"},
			"a circle": {hops: maxHops, want: "no GPU"},
		} {
			w, s := forwarding(t)
			w.forwardErr = c.err
			_, stop := w.start(s)
			id := w.invoke("f", func(m *activation.Message) {
				if c.hops > 0 {
					m.Forwarded = &activation.Forwarded{Instance: activation.Instance{ID: 7, UserMemory: 1}, Hops: c.hops}
				}
			})
			synctest.Wait()
			stop()
			rec := w.record(id)
			if kinds := w.kinds(id); len(kinds) != 1 || kinds[0] != "combined" || rec == nil || len(w.done) != 1 {
				t.Fatalf("%s: acks %v, record %v, done %v", name, kinds, rec, w.done)
			}
			var said struct{ Error string }
			if err := json.Unmarshal(rec.Response.Result, &said); err != nil || rec.Response.StatusCode != activation.StatusWhiskError ||
				!strings.Contains(said.Error, c.want) || !strings.Contains(said.Error, "whisk.gpu.forward-topic") {
				t.Errorf("%s: %d %q, want %q in it", name, rec.Response.StatusCode, said.Error, c.want)
			}
		}
	})
}
