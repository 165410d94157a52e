package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/gpucheck"
)

// gpuCheckCmd tests and measures the shim on the GPU of this machine.
type gpuCheckCmd struct {
	Out        string        `default:"docs/results" type:"path" placeholder:"DIR" help:"Where the results are written, as Markdown and JSON."`
	Shim       string        `default:"build/shim" type:"path" placeholder:"DIR" help:"Directory of libgpuwhisk.so, with the test programs in check/ (${default})."`
	FakeDriver string        `type:"path" placeholder:"DIR" help:"Directory of a fake libcuda.so.1; the results say that the driver is fake."`
	NVML       string        `name:"nvml" placeholder:"PATH" help:"The driver's libnvidia-ml.so.1, if the loader does not find it."`
	Python     string        `placeholder:"PROGRAM" help:"Python with PyTorch, CuPy or JAX, if any (${check_python})."`
	Only       []string      `placeholder:"NAME" help:"Only these steps, by their names above; may be given more than once."`
	Skip       []string      `placeholder:"NAME" help:"All steps but these."`
	Size       size          `placeholder:"SIZE" help:"Largest block that is swapped (${check_swap}, never more than 40% of the free memory)."`
	Set        size          `placeholder:"SIZE" help:"Working set of one container (${check_set})."`
	HostMemory size          `placeholder:"SIZE" help:"Free memory of the host, if the kernel reports a wrong value, as in a virtual machine whose memory grows with use."`
	Containers int           `placeholder:"N" help:"Containers that run one after the other (${check_containers})."`
	Rounds     int           `placeholder:"N" help:"Repetitions of each measurement (${check_rounds})."`
	Limit      time.Duration `help:"Longest time for the whole check (${check_limit})."`
	Reclaim    bool          `help:"If moved memory still counts as used, try to allocate more plain memory than the driver reports as free. This fills the card for a moment: do not use it on a shared card."`
	RealGoals  bool          `help:"Compare a fake driver with the goals of a real one."`
	JSON       bool          `name:"json" help:"Print the report as one JSON object, too."`
}

// Help is the longer text of gpuwhisk gpu-check --help.
func (gpuCheckCmd) Help() string {
	return `It needs only a GPU with its driver, and never uses more than the free memory of the card.
MPS, MIG, clocks and the compute mode stay as they are. On a machine without a GPU:

  make shim-fake && make -C shim/check && gpuwhisk gpu-check --fake-driver build/shim/fake12 --out /tmp/results

The steps, each with its time budget. A step may also use the time that earlier steps have
left, and --limit bounds the sum. The results are written after each step, and after an interrupt.

` + gpucheck.Help() + `
Exit status: 0 all well, 1 a step missed its goal or failed, 2 the check could not run.
docs/results/README.md explains the results.`
}

// Run runs the checks. Its error carries the exit status of the report.
func (c gpuCheckCmd) Run() error {
	if c.FakeDriver != "" {
		remove, err := shareFakeDevice()
		if err != nil {
			return statusError{2, err}
		}
		defer remove()
	}
	ctx, s := interrupted(), c.settings()
	var files []string
	var unwritten error
	s.Save = func(r *gpucheck.Report) { files, unwritten = r.Write(c.Out) }
	report, err := gpucheck.Run(ctx, s)
	if err = cmp.Or(err, unwritten); err != nil {
		return statusError{2, err}
	}
	fmt.Fprintf(os.Stderr, "%s in %.0f s, written to %s\n", report.Verdict, report.Seconds, strings.Join(files, " and "))
	if c.JSON {
		if err := report.PrintJSON(os.Stdout); err != nil {
			return statusError{2, err}
		}
	}
	return statusError{report.ExitCode(), nil}
}

// shareFakeDevice names the file of the fake device in the environment. The fake management
// library is loaded into this process and sees the programs' device by this file.
func shareFakeDevice() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "gpuwhisk-fake")
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"FAKE_CUDA_STATE": filepath.Join(dir, "device"), "FAKE_NVML_LIMITS": "all"} {
		if os.Getenv(name) == "" {
			err = errors.Join(err, os.Setenv(name, value))
		}
	}
	return func() { _ = os.RemoveAll(dir) }, err
}

func (c gpuCheckCmd) settings() gpucheck.Settings {
	s := gpucheck.Settings{
		Shim: c.Shim, FakeDriver: c.FakeDriver, NVML: c.NVML, Python: c.Python,
		Version: version, Only: c.Only, Skip: c.Skip, Containers: c.Containers, Rounds: c.Rounds, Limit: c.Limit, Reclaim: c.Reclaim,
		Swap: int64(c.Size), Set: int64(c.Set), HostMemory: int64(c.HostMemory),
		Environ: os.Environ(), Progress: os.Stderr,
		Log: textLog(slog.LevelWarn),
	}
	s.Self, _ = os.Executable() // without it, the end-to-end step fails
	if c.RealGoals {
		s.Goals = new(gpucheck.RealGoals())
	}
	return s
}
