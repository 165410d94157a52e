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
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// invokerCmd runs the invoker in an OpenWhisk cluster, in place of OpenWhisk's own.
type invokerCmd struct {
	identity
	PrintConfig bool `help:"Print every setting with its value and source, secrets masked, and exit."`
	JSON        bool `name:"json" help:"With --print-config: print JSON."`
}

// Help is the longer text of gpuwhisk invoker --help.
func (invokerCmd) Help() string {
	return `Reads the same environment as OpenWhisk's own invoker under its Ansible role and chart:
KAFKA_HOSTS, RUNTIMES_MANIFEST, WHISK_API_HOST_NAME and the CONFIG_whisk_* variables.
docs/configuration.md lists every key; --print-config shows the values in force.

  KAFKA_HOSTS=kafka:9092 ... gpuwhisk invoker --id 0 --uniqueName 0

Admin endpoints on PORT (8080): /ping, /metrics, and with the credentials of
CONFIG_whisk_invoker_username and _password /status, /enable, /disable.
On SIGTERM and SIGHUP it stops pulling, finishes the running activations and exits. Warm
containers stay for the next process with this id (whisk.gpu.handover). On Ctrl-C, or SIGTERM
after POST /disable, it removes them. A second signal, at least two seconds later, ends it at
once. If an invoker never comes back, gpuwhisk clean removes its containers.
The invoker computes on half of the machine's processors, at most four, and collects garbage
before its memory exceeds the need of its settings. GOMAXPROCS and GOMEMLIMIT override that.`
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

// identity holds the arguments of OpenWhisk's invoker that name it.
type identity struct {
	ID            string `name:"id" placeholder:"N" help:"Number of this invoker; without it, ZooKeeper assigns a number to the unique name."`
	UniqueName    string `name:"uniqueName" placeholder:"NAME" help:"Name that stays the same over restarts."`
	DisplayedName string `name:"displayedName" placeholder:"NAME" help:"Name shown to operators."`
	OverwriteID   string `name:"overwriteId" placeholder:"N" help:"Take this number in ZooKeeper from the invoker that has it."`
}

// args returns the arguments in the form that config parses.
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

// loadConfig loads the configuration from the environment, the arguments and
// whisk.properties, if there is such a file.
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

// secondSignal is how long after the first signal a second one counts as the same: GNU
// timeout, a shell and a service manager may each pass on a signal.
const secondSignal = 2 * time.Second

// interrupted returns a context that the first SIGTERM, SIGHUP or interrupt cancels. A
// second signal ends the process at once, unless it follows so soon that another sender
// has only repeated the first. A closed terminal sends SIGHUP; nohup ignores it.
func interrupted() context.Context {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return untilSignalled(signals, func() {
		fmt.Fprintln(os.Stderr, "gpuwhisk: second signal, exiting at once")
		os.Exit(130)
	})
}

// errTerminated is the cause of a context that SIGTERM or SIGHUP has cancelled.
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

// containerLogCmd writes the log of one container. containerd starts it beside the
// container, and it ends with the container.
type containerLogCmd struct {
	File string `arg:"" help:"Size at which the file is rotated, a colon, and the path."`
}

// Run copies the container's output.
func (c containerLogCmd) Run() error { return logs.Copy(c.File) }

// nativeProxyCmd runs this program as the action proxy of executables. The process
// runtime and the native image start it.
type nativeProxyCmd struct {
	NoImage bool `help:"The action's image does not exist here."`
}

// Run serves until a signal arrives.
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

// maxProcessors is more than an invoker needs: it completes a thousand activations a
// second on one processor.
const maxProcessors = 4

// limitProcessors limits the processors that the invoker computes on, unless the
// environment sets GOMAXPROCS. An invoker mostly waits for programs on the same machine.
// With all processors, the Go runtime wakes a thread on another processor at each event,
// to look for more work. On two processors that cost an eighth of the invoker's CPU
// time.
func limitProcessors(environ []string) {
	if lookup(environ, "GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(processors(runtime.GOMAXPROCS(0)))
	}
}

// limitMemory makes the garbage collector run before the invoker's memory exceeds its
// expected need, unless the environment sets GOMEMLIMIT.
func limitMemory(environ []string, bytes int64) {
	if lookup(environ, "GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

// processors returns the invoker's share of the processors of the machine or cgroup.
func processors(all int) int { return min(max(all/2, 1), maxProcessors) }
