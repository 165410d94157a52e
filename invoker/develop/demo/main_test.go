package demo

import (
	"os"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
)

// TestMain makes the test binary the proxy of executables, which the invoker
// takes itself for.
func TestMain(m *testing.M) {
	harness.Act(nil)
	os.Exit(m.Run())
}
