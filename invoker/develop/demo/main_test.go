package demo

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

// TestMain makes the test binary the proxy of executables, which the invoker
// takes itself for.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == assembly.NativeProxy {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := native.Run(ctx, os.Environ(), os.Stdout, os.Stderr)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
