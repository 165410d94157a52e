package demo

import (
	"os"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestMain makes the test binary the proxy of executables, which the invoker
// takes itself for.
func TestMain(m *testing.M) {
	harness.Act(nil)
	os.Exit(m.Run())
}
