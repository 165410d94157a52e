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

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/demo"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// demoCmd shows a GPU workload under two policies, and cleans up afterwards.
type demoCmd struct {
	Load    time.Duration `default:"15s" help:"How long calls are sent, under each policy."`
	Seed    uint64        `default:"1" help:"Seed of the arrivals."`
	Runtime string        `default:"auto" enum:"auto,docker,process" help:"Run actions in Docker, or as plain processes (${enum})."`
	Policy  string        `placeholder:"NAME" help:"Scheduling policy to compare with fcfs (sticky-plus)."`
	Keep    bool          `help:"Keep running after the report, to look at the console, until Ctrl-C."`
	Verbose bool          `short:"v" help:"Show the invoker's log."`
}

// Run prints the demonstration on standard output.
func (c demoCmd) Run() error {
	level := slog.LevelError
	if c.Verbose {
		level = slog.LevelInfo
	}
	log := textLog(level)
	machine, extra := c.machine()
	runtime := c.Runtime
	if machine.Driver && runtime == "auto" {
		runtime = "process" // it can run an executable as well
	}
	// The other policy is compared with fcfs, which serves in the order of arrival.
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

// Validate checks the flags before anything is started.
func (c demoCmd) Validate() error {
	if c.Load <= 0 {
		return fmt.Errorf("--load %s: want a time above 0, such as 20s", c.Load)
	}
	return checkPolicy(c.Policy)
}

// checkPolicy returns an error that names the flag if the policy is unknown. An empty
// name means the default policy.
func checkPolicy(name string) error {
	if name != "" && !slices.Contains(sched.PolicyNames(), name) {
		return fmt.Errorf("--policy %s: want one of %s", name, strings.Join(sched.PolicyNames(), ", "))
	}
	return nil
}

// machine finds the tools that can run functions on this machine. It also returns the
// settings that run GPU functions under the shim on the fake driver, if both are built.
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
