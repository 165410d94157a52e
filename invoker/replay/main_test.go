package replay

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
// the action proxy of executables, and an invoker that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case assembly.NativeProxy:
			os.Exit(status(native.Run(interrupted(), os.Environ(), os.Stdout, os.Stderr)))
		case roleInvoker:
			os.Exit(status(actInvoker(interrupted(), os.Args[2:])))
		}
	}
	os.Exit(m.Run())
}

func interrupted() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	return ctx
}

func status(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
