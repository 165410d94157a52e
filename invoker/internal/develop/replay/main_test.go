package replay

import (
	"flag"
	"os"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// roleClock is the argument by which this program tries whether its clock can be
// stepped.
const roleClock = "replay-clock"

// TestMain lets the test binary act as the programs of gpuwhisk: the action proxy of
// executables, and an invoker that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == roleClock {
		harness.Exit(tryClock(os.Args[2]))
	}
	harness.Act(func() error {
		sweepAtSignal()
		if path := os.Getenv(clockVariable); path != "" {
			return followClock(path)
		}
		return nil
	})
	flag.Parse()
	if os.Getenv("GPUWHISK_CHAOS_REAL") == "" && os.Getenv("GPUWHISK_CHAOS_FIXTURES") == "" {
		harness.ManyAtOnce()
	}
	peertest.Exit(m.Run())
}
