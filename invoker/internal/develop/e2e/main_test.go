package e2e

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestMain lets the test binary act as the programs of gpuwhisk, and as an invoker. It
// ends the shared parts of the tests.
func TestMain(m *testing.M) {
	harness.Act(nil)
	flag.Parse()
	harness.ManyAtOnce()
	peertest.Prepare()
	before := runtime.NumGoroutine()
	code := m.Run()
	if left := goroutinesLeft(before); code == 0 && left != "" { // by tests beside each other
		fmt.Fprintln(os.Stderr, left)
		code = 1
	}
	peertest.Exit(code)
}
