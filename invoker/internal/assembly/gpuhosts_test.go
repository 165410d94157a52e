package assembly

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// A forwarder waits at its start for the pings of the named invokers. Then it answers at
// once, with the reason of each if none takes work.
func TestChooseWaitsForPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newGPUHosts(0, []int{0, 3, 9})
		ping := func(id int) kafka.HeardPing {
			return kafka.HeardPing{Ping: activation.Ping{Instance: activation.Instance{ID: id}, Enabled: true}, GPU: true}
		}
		began := time.Now()
		go func() {
			time.Sleep(2 * time.Second)
			h.heard([]kafka.HeardPing{ping(0), ping(9)})
		}()
		n, err := h.Choose(t.Context(), "guest", "f")
		check.NoError(t, err)
		check.Equal(t, n, 9)
		check.Equal(t, time.Since(began).Round(time.Second), 2*time.Second)
		for range 12 { // pings of others only
			time.Sleep(time.Second)
			h.heard(nil)
		}
		began = time.Now()
		_, err = h.Choose(t.Context(), "guest", "f")
		check.ErrorContains(t, err, "invoker3 sent no ping, invoker9 sent no ping for 12s")
		check.Equal(t, time.Since(began), 0)
	})
	check.That(t, newGPUHosts(0, nil) == nil, "forwards though no invoker is named")
}
