package replay

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes/native"
	"github.com/gpuwhisk/gpuwhisk/invoker/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestMain lets the test's own program be what gpuwhisk is to its processes:
// the action proxy of executables, and an invoker that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case assembly.NativeProxy:
			os.Exit(status(native.Run(interrupted(), os.Environ(), os.Stdout, os.Stderr)))
		case roleClock:
			os.Exit(status(tryClock(os.Args[2])))
		case roleInvoker:
			os.Exit(status(actInvoker(interrupted(), os.Args[2:])))
		}
	}
	flag.Parse()
	if os.Getenv("GPUWHISK_CHAOS_REAL") == "" && os.Getenv("GPUWHISK_CHAOS_WORLDS") == "" {
		_ = flag.Set("test.parallel", strconv.Itoa(atOnce(runtime.GOMAXPROCS(0))))
	}
	peertest.Exit(m.Run())
}

// atOnce is how many tests run at once: twice as many as there are cores, for
// most of what they do is to wait.
func atOnce(cores int) int { return 2 * cores }

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
