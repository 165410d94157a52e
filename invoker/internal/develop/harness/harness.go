// Package harness is the common fixture of tests of whole invokers. It has
//
//   - a deployment: the parts that an invoker needs, embedded or real, in classic mode or
//     in scheduler mode, and the activations that a test sends there;
//   - an invoker in this process or in its own, with or without a simulated GPU;
//   - a gate at which the runs of actions wait;
//   - the invoker's admin page, with functions that wait for a state;
//   - the messages of a controller, a recording of the invoker's messages, and a
//     caller that measures times;
//   - the database as a controller uses it, behind a proxy that can inject faults.
//
// Only tests import it. Its goroutines end with the process or the test that they
// serve.
package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes/native"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// RoleInvoker is the argument that turns a test's program into an invoker.
const RoleInvoker = "test-invoker"

// EndsWithInput is set for an invoker in a container. Such an invoker does not end
// with the test's process; it ends when its standard input is closed.
const EndsWithInput = "GPUWHISK_TEST_ENDS_WITH_INPUT"

// Act runs the role for which a test's program was started: the action proxy of
// executables, the writer of a container's log, or an invoker. An invoker calls prepare first if it is not nil. Act
// returns only in a process that runs the tests.
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
	case logs.Command:
		err = errors.New("the path of a log is missing")
		if len(os.Args) > 2 {
			err = logs.Copy(os.Args[2])
		}
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

// Exit ends a process whose role has returned.
func Exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// actInvoker is the part of `gpuwhisk invoker` that tests need. It prints the address
// of its admin page, and a line when it is ready.
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

// longWaits makes an engine's waits long, for a machine that stalls now and then.
func longWaits(w *logs.Waits, settle *time.Duration) {
	w.Idle, w.Answered, w.OtherStream, w.QuietFailed = 12*time.Second, 10*time.Second, 6*time.Second, 6*time.Second
	*settle = 20 * time.Second
}

// Run runs an invoker with the environment and the arguments until ctx ends. If
// o.Self is empty, this program is the invoker's action proxy (see Act).
func Run(ctx context.Context, environ, args []string, o assembly.Options) error {
	cfg, err := config.Load(config.Input{Environ: environ, Args: args})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.Config, o.Self, o.Path, o.EngineWaits = cfg, cmp.Or(o.Self, self), os.Getenv("PATH"), longWaits
	return assembly.Run(ctx, o)
}
