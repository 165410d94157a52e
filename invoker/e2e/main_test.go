package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes/native"
	"github.com/gpuwhisk/gpuwhisk/invoker/assembly"
)

// TestMain lets the test's own program be what gpuwhisk is to its processes:
// the action proxy of executables. What the tests started together ends here.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == assembly.NativeProxy {
		os.Exit(proxyMain())
	}
	code := m.Run()
	for i := len(atExit) - 1; i >= 0; i-- {
		if err := atExit[i](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// atExit ends what outlives single tests, the last first.
var atExit []func() error

func proxyMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := native.Run(ctx, os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
