package assembly

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

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
