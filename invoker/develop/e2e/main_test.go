package e2e

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
// the action proxy of executables. What the tests started together ends here.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == assembly.NativeProxy {
		os.Exit(proxyMain())
	}
	if len(os.Args) > 1 && os.Args[1] == roleInvoker {
		os.Exit(invokerMain(os.Args[2:]))
	}
	flag.Parse()
	// Most of what the tests do is to wait.
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	peertest.Prepare()
	before := runtime.NumGoroutine()
	code := m.Run()
	if left := goroutinesLeft(before); code == 0 && left != "" { // by tests beside each other
		fmt.Fprintln(os.Stderr, left)
		code = 1
	}
	peertest.Exit(code)
}

func proxyMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := native.Run(ctx, os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
