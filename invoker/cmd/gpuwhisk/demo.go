package main

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/demo"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// demoCmd shows the main job end to end and cleans up after itself.
type demoCmd struct {
	Load    time.Duration `default:"15s" help:"How long calls are made, under each policy."`
	Seed    uint64        `default:"1" help:"Seed of the arrivals."`
	Runtime string        `default:"auto" enum:"auto,docker,process" help:"Run actions in Docker, or as plain processes (${enum})."`
	Policy  string        `placeholder:"NAME" help:"Scheduling policy that is shown beside fcfs (sticky-plus)."`
	Keep    bool          `help:"Stay when the report is printed, so that the console can be looked at; Ctrl-C ends it."`
	Verbose bool          `short:"v" help:"Log what the invoker does."`
}

// Run shows everything on standard output.
func (c demoCmd) Run() error {
	level := slog.LevelError
	if c.Verbose {
		level = slog.LevelInfo
	}
	log := textLog(level)
	machine, extra := c.machine()
	runtime := c.Runtime
	if machine.Driver && runtime == "auto" {
		runtime = "process" // which can run an executable, too
	}
	// Others are compared with fcfs, which serves in the order of arrival.
	policies := slices.Compact([]string{"fcfs", cmp.Or(c.Policy, config.Default().GPU.Policy)})
	invoker, admin := inProcess(log, nil)
	return demo.Run(interrupted(), demo.Options{
		Standalone: standalone.Options{
			Runtime: runtime, GPUs: 1, GPUMemory: machine.DeviceMemory(), Memory: "8192m",
			Extra:  append(machine.Settings(), extra...),
			Docker: os.Getenv("DOCKER_HOST"), Version: version, Invoker: invoker, Admin: admin, Log: log,
		},
		Machine: machine, Functions: demo.Catalogue(machine), Policies: policies, Load: c.Load, Seed: c.Seed, Keep: c.Keep, Memory: machine.Driver,
		Out: os.Stdout, Terminal: term.IsTerminal(int(os.Stdout.Fd())),
	})
}

// Validate checks what flags alone show, before anything is started.
func (c demoCmd) Validate() error {
	if c.Load <= 0 {
		return fmt.Errorf("--load %s: want a time above 0, such as 20s", c.Load)
	}
	return checkPolicy(c.Policy)
}

// checkPolicy returns an error that names the flag for an unknown policy; empty is
// the default policy.
func checkPolicy(name string) error {
	if name != "" && !slices.Contains(sched.PolicyNames(), name) {
		return fmt.Errorf("--policy %s: want one of %s", name, strings.Join(sched.PolicyNames(), ", "))
	}
	return nil
}

// machine looks for what functions can run with, and gives the settings that
// have GPU functions run under the shim on the fake driver where both are built.
func (c demoCmd) machine() (demo.Machine, []string) {
	m := demo.Here()
	self, err := os.Executable()
	if err != nil || !m.Python {
		return m, nil
	}
	library := devices.FindLibrary(self)
	driver, program := filepath.Join(filepath.Dir(library), "fake12"), filepath.Join(filepath.Dir(library), "gpufunc")
	if library == "" || devices.CheckLibrary(library) != nil || devices.CheckDriver(driver) != nil {
		return m, nil
	}
	m.Driver = true
	if code, err := os.ReadFile(program); err == nil && c.Runtime != "docker" {
		m.Program = base64.StdEncoding.EncodeToString(code)
	}
	return m, []string{"CONFIG_whisk_gpu_shim_library=" + library, "CONFIG_whisk_gpu_fakeDriver=" + driver}
}
