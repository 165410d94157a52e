package assembly

import (
	"net/http"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// The next of two processes with one id waits until the previous one has ended and
// reports that at /ping: on the same host it waits for the lock, on another for the
// pings to end.
func TestNextProcessWaitsForThePrevious(t *testing.T) {
	for _, host := range []struct{ name, want string }{
		{"same", "another process on this host"}, {"other", "waiting for another process with the same id"},
	} {
		t.Run(host.name, func(t *testing.T) {
			bus, environ := deployment(t)
			pings := subscribe(t, bus)
			longSilence := func(o *Options) { o.silence = time.Minute }
			previous := start(t, environ, longSilence)
			<-previous.ready
			await(t, pings, `"isEnabled":true`)
			if host.name == "other" {
				environ = append(environ, "CONFIG_whisk_gpu_state="+t.TempDir())
			}
			next := start(t, environ, longSilence)
			awaitResponse(t, next.address+"/ping", http.StatusServiceUnavailable, host.want)
			select {
			case <-next.ready:
				t.Error("started beside the previous one")
			case err := <-next.ended:
				t.Fatalf("ended beside the previous one: %v", err)
			default:
			}
			previous.end(t)
			<-next.ready
			next.end(t)
		})
	}
}

// The next process on this host knows the name of the dead process in its pings, and need not
// wait for those pings to become old.
func TestLastPingerIsRemembered(t *testing.T) {
	dir, last := t.TempDir(), ""
	for range 3 {
		a := withState(config.State{Dir: dir})
		check.NoError(t, a.state.awaitState(t.Context()))
		check.Equal(t, a.state.deadPinger(), last)
		name := a.state.namePinger()
		check.That(t, name != "")
		check.That(t, name != last, "is called %q after %q", name, last)
		last = name
		if err := a.state.close(); err != nil {
			t.Error(err)
		}
	}
	none := withState(config.State{})
	check.Equal(t, none.state.deadPinger(), "", "without a journal")
	check.That(t, none.state.namePinger() != "", "without a journal")
}
