package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes/native"
	"github.com/gpuwhisk/gpuwhisk/invoker/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// invokerCmd joins an OpenWhisk cluster instead of its own invoker.
type invokerCmd struct {
	identity
	PrintConfig bool `help:"Print every setting with its value and where it comes from, secrets masked, and exit."`
	JSON        bool `name:"json" help:"With --print-config: print JSON."`
}

// Help is the longer text of gpuwhisk invoker --help.
func (invokerCmd) Help() string {
	return `Reads the environment that OpenWhisk's Ansible role and chart give their invoker:
KAFKA_HOSTS, RUNTIMES_MANIFEST, WHISK_API_HOST_NAME and the CONFIG_whisk_* variables.
docs/configuration.md lists every key; --print-config shows what holds here.

  KAFKA_HOSTS=kafka:9092 ... gpuwhisk invoker --id 0 --uniqueName 0

Admin endpoints on PORT (8080): /ping, /metrics, and with the credentials of
CONFIG_whisk_invoker_username and _password /status, /enable, /disable.
SIGTERM and SIGHUP stop pulling, finish what runs and exit; warm containers stay for the next
process with this id (whisk.gpu.handover). Ctrl-C, or SIGTERM after POST /disable, removes
them. A second signal, two seconds later or more, ends it at once. What an invoker has left
that never comes back, gpuwhisk clean removes.
It computes on half of the machine's processors, on four at most, and collects
garbage before it takes more memory than its settings let it need; GOMAXPROCS and GOMEMLIMIT
override that.`
}

// Run loads the configuration and runs the invoker until a signal.
func (c invokerCmd) Run() error {
	environ, err := withOwnCredentials(os.Environ())
	if err != nil {
		return err
	}
	cfg, err := loadConfig(environ, c.args())
	if c.PrintConfig {
		if cfg == nil {
			return err
		}
		return errors.Join(c.print(cfg), err)
	}
	if err != nil {
		return err
	}
	limitProcessors(os.Environ())
	limitMemory(os.Environ(), cfg.OwnMemory())
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ctx := interrupted()
	context.AfterFunc(ctx, func() { notify(daemon.SdNotifyStopping) })
	o := assembly.Options{
		Terminated: func() bool { return errors.Is(context.Cause(ctx), errTerminated) },
		Config:     cfg, Log: newLogger(os.Stdout, cfg.Logs), Version: version,
		Self: self, Path: os.Getenv("PATH"), LibraryPath: os.Getenv("LD_LIBRARY_PATH"),
		Ready: func() { notify(daemon.SdNotifyReady) },
	}
	if every := watchdogInterval(); every > 0 {
		o.Beat = func(ctx context.Context, alive func(context.Context) error) { beat(ctx, every, alive) }
	}
	return assembly.Run(ctx, o)
}

func (c invokerCmd) print(cfg *config.Config) error {
	if c.JSON {
		return cfg.PrintJSON(os.Stdout)
	}
	return cfg.Print(os.Stdout)
}

// identity names an invoker as the original's command line does.
type identity struct {
	ID            string `name:"id" placeholder:"N" help:"Number of this invoker; without it ZooKeeper assigns one to the unique name."`
	UniqueName    string `name:"uniqueName" placeholder:"NAME" help:"Name that stays the same over restarts."`
	DisplayedName string `name:"displayedName" placeholder:"NAME" help:"Name shown to operators."`
	OverwriteID   string `name:"overwriteId" placeholder:"N" help:"Take this number in ZooKeeper from the invoker that has it."`
}

// args are the arguments as config reads them.
func (c identity) args() []string {
	var args []string
	for _, a := range [][2]string{
		{"--id", c.ID}, {"--uniqueName", c.UniqueName}, {"--displayedName", c.DisplayedName}, {"--overwriteId", c.OverwriteID},
	} {
		if a[1] != "" {
			args = append(args, a[0], a[1])
		}
	}
	return args
}

// loadConfig adds whisk.properties, if there is one, to the sources.
func loadConfig(environ, args []string) (*config.Config, error) {
	in := config.Input{Environ: environ, Args: args}
	if dir, err := os.Getwd(); err == nil {
		at, text, err := config.FindProperties(os.DirFS("/"), strings.TrimPrefix(dir, "/"))
		if err != nil {
			return nil, err
		}
		in.PropertiesPath, in.Properties = at, text
	}
	return config.Load(in)
}

// secondSignal is how long after the first signal a second one is taken for
// the same: GNU timeout, a shell and a service manager may each pass one on.
const secondSignal = 2 * time.Second

// interrupted is a context that ends with the first SIGTERM, SIGHUP or interrupt. A
// second one ends the process at once, unless it comes so soon that it is the
// same one from another sender. A terminal that closes sends SIGHUP; nohup ignores it.
func interrupted() context.Context {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return untilSignalled(signals, func() {
		fmt.Fprintln(os.Stderr, "gpuwhisk: second signal, leaving at once")
		os.Exit(130)
	})
}

// errTerminated is the cause of a context that SIGTERM or SIGHUP has ended.
var errTerminated = errors.New("terminated")

func untilSignalled(signals <-chan os.Signal, exit func()) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		if s := <-signals; s == syscall.SIGTERM || s == syscall.SIGHUP {
			cancel(errTerminated)
		}
		cancel(nil)
		for first := time.Now(); ; {
			<-signals
			if time.Since(first) >= secondSignal {
				exit()
				return
			}
		}
	}()
	return ctx
}

// nativeProxyCmd is this program as the action proxy of executables, started
// by the process runtime and in the native image.
type nativeProxyCmd struct {
	NoImage bool `help:"The action's image, if it has one, is not there."`
}

// Run serves until a signal.
func (c nativeProxyCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	environ := os.Environ()
	if c.NoImage {
		environ = native.WithoutImage(environ)
	}
	if err := native.Run(ctx, environ, os.Stdout, os.Stderr); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// maxProcessors is more than an invoker needs: on one it completes a thousand
// activations a second.
const maxProcessors = 4

// limitProcessors bounds the processors that the invoker computes on, unless
// the environment does (GOMAXPROCS). An invoker mostly waits for programs that run
// on the same machine. With all processors the Go runtime wakes a thread on
// another one for each event, to find more work; on two that was an eighth of the
// invoker's CPU.
func limitProcessors(environ []string) {
	if lookup(environ, "GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors(runtime.GOMAXPROCS(0)))
	}
}

// limitMemory has garbage collected before the invoker takes more than it should
// need, unless the environment has a limit (GOMEMLIMIT).
func limitMemory(environ []string, bytes int64) {
	if lookup(environ, "GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

// processors is the invoker's share of those of the machine, or of the cgroup.
func processors(all int) int { return min(max(all/2, 1), maxProcessors) }
