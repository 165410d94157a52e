package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/doctor"
)

// doctorCmd examines this host and the services that its invoker connects to.
type doctorCmd struct {
	identity

	EnvFile      string        `name:"env-file" placeholder:"PATH" help:"${env_file}"`
	JSON         bool          `name:"json" help:"Print one JSON object."`
	Colour       string        `name:"color" enum:"auto,always,never" default:"auto" help:"Colour of the signs: ${enum}."`
	Probe        []string      `placeholder:"IMAGE" help:"Run this image briefly and check that it speaks the protocol of actions; may be given more than once."`
	Image        []string      `placeholder:"IMAGE" help:"Check that the shim reaches the actions of this image: run it briefly, with a small action; may be given more than once. The image must be on this host."`
	ProbeTimeout time.Duration `default:"30s" help:"Longest time for one image of --probe or --image."`
	Timeout      time.Duration `default:"3s" help:"Longest time for one check."`
	Shim         string        `placeholder:"PATH" help:"The shim library; by default the usual paths are tried."`
	NVML         string        `name:"nvml" placeholder:"PATH" help:"The driver's libnvidia-ml.so.1, if the loader does not find it."`
}

// Help is the longer text of gpuwhisk doctor --help.
func (doctorCmd) Help() string {
	return `Give it the environment and the arguments of the invoker; by default it reads
/etc/gpuwhisk/invoker.env. Without that file it examines only the host. It changes nothing.
Each line is one finding: ok, warn, fail, or skip for a part that is not configured; the result, and how to fix it.
Exit status: 0 all well, 1 warnings, 2 failures. docs/doctor.md explains every check.`
}

// Run examines the host. Its error carries the exit status of the report.
func (c doctorCmd) Run() error {
	environ, source, err := settings(c.EnvFile, c.ID)
	if err != nil {
		return err
	}
	cfg, problem := loadConfig(environ, c.args())
	if cfg == nil { // not even the sources are readable
		cfg = config.Default()
	}
	self, _ := os.Executable() // without it, the shim is searched elsewhere
	m := &doctor.Machine{
		Config: cfg, ConfigErr: problem, Source: source, Environ: environ,
		ProbeImages: c.Probe, ShimImages: c.Image, ProbeLimit: c.ProbeTimeout,
	}
	report := doctor.Examine(context.Background(), m.Here(self, c.Shim, c.NVML), c.Timeout)
	if err := c.print(report); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return statusError{report.ExitCode(), nil}
}

func (c doctorCmd) print(r doctor.Report) error {
	if c.JSON {
		return r.PrintJSON(os.Stdout)
	}
	colour := c.Colour == "always" ||
		c.Colour == "auto" && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == ""
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0 // without a terminal, lines are not wrapped
	}
	return r.Print(os.Stdout, colour, width)
}
