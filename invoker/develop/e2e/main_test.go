package e2e

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestMain lets the test's own program be what gpuwhisk is to its processes, and
// an invoker. What the tests started together ends here.
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
