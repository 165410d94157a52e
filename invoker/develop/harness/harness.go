// Package harness is what the tests of whole invokers share: an invoker in this
// process or in one of its own, with a simulated GPU where one is wanted; its admin
// page and what is waited for there; the messages of a controller, a recording of
// what comes back, and a caller that takes the time; and the database as a controller
// uses it, with a proxy before it that fails when a test wants it. Only tests import
// it. Its goroutines end with the process or the test that they serve.
package harness

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes/native"
	"github.com/gpuwhisk/gpuwhisk/invoker/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// RoleInvoker is the argument by which a test's program is an invoker.
const RoleInvoker = "test-invoker"

// EndsWithInput is set for an invoker in a container, which does not end with the
// test that started it: its standard input does.
const EndsWithInput = "GPUWHISK_TEST_ENDS_WITH_INPUT"

// Act lets a test's program be what gpuwhisk is to its processes, where it was
// started as such: the action proxy of executables, or an invoker, which calls
// prepare first, if there is any. It returns in a process that runs the tests.
func Act(prepare func() error) {
	if len(os.Args) < 2 {
		return
	}
	var err error
	switch os.Args[1] {
	case assembly.NativeProxy:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = native.Run(ctx, os.Environ(), os.Stdout, os.Stderr)
		stop()
	case RoleInvoker:
		if prepare != nil {
			err = prepare()
		}
		if err == nil {
			err = actInvoker(os.Args[2:])
		}
	default:
		return
	}
	Exit(err)
}

// Exit ends a process that has carried out its role.
func Exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// actInvoker is `gpuwhisk invoker` as far as a test needs it. It prints where its
// admin page is, and when it is ready.
func actInvoker(args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var terminated atomic.Bool
	go func() {
		terminated.Store(<-signals == syscall.SIGTERM)
		cancel()
	}()
	if os.Getenv(EndsWithInput) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	return Run(ctx, os.Environ(), args, assembly.Options{
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Terminated: terminated.Load,
		Listening: func(addr string) { fmt.Println(listening + addr) }, Ready: func() { fmt.Println(ready) },
	})
}

// Run runs an invoker with this environment and these arguments until ctx ends.
// Without Self this program is its action proxy (Act).
func Run(ctx context.Context, environ, args []string, o assembly.Options) error {
	cfg, err := config.Load(config.Input{Environ: environ, Args: args})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Config, o.Self, o.Path, o.LongTimeouts = cfg, cmp.Or(o.Self, self), os.Getenv("PATH"), true
	return assembly.Run(ctx, o)
}
