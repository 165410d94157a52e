// Command gpuwhisk is the only binary of GPU Whisk: the invoker of an Apache OpenWhisk
// cluster, a one-process OpenWhisk for development, and the scheduling simulator. It
// only wires packages together; the decisions are made in other packages. Only the files
// in this directory read the environment or exit the process.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/alecthomas/kong"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/demo"
)

// version is set by the linker (-X main.version=...).
var version = "dev"

// cli is the whole command line. Each command is a struct in its own file, and kong
// calls its Run method.
type cli struct {
	Invoker    invokerCmd    `cmd:"" help:"Run as an invoker of an OpenWhisk cluster, in place of its own."`
	Standalone standaloneCmd `cmd:"" help:"Run a small OpenWhisk in one process, for development."`
	Demo       demoCmd       `cmd:"" help:"Compare fcfs and fair queueing on a simulated GPU, in about a minute."`
	Top        topCmd        `cmd:"" help:"Watch an invoker in the terminal: devices, functions, last activations."`
	Explain    explainCmd    `cmd:"" help:"Explain an activation: why it waited, how it started, how it ended."`
	Load       loadCmd       `cmd:"" help:"Call actions of a live OpenWhisk at a rate or from a trace, and report the latencies."`
	New        newCmd        `cmd:"" help:"Create a GPU function to start from, with its test, and print the next steps."`
	Sim        simCmd        `cmd:"" help:"Simulate scheduling: policies, workloads, the paper's claims."`
	Doctor     doctorCmd     `cmd:"" help:"Examine this host and its invoker's settings; report problems and how to fix them."`
	GPUCheck   gpuCheckCmd   `cmd:"" name:"gpu-check" help:"Test and measure the GPU of this machine under the shim; write the results to files."`
	Ping       pingCmd       `cmd:"" help:"Check whether the invoker of this host accepts work."`
	Drained    drainedCmd    `cmd:"" help:"Wait until an invoker has answered all activations."`
	Probe      probeCmd      `cmd:"" help:"Run one activation through an invoker and wait for its ack."`
	Clean      cleanCmd      `cmd:"" help:"Remove action containers that an invoker left behind."`
	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
	Version    versionCmd    `cmd:"" help:"Print the version."`

	Man         manCmd           `cmd:"" hidden:"" help:"Write the pages of the manual."`
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version and exit."`

	NativeProxy  nativeProxyCmd  `cmd:"" hidden:"" help:"Run as the action proxy of executables."`
	ContainerLog containerLogCmd `cmd:"" hidden:"" help:"Write the log of a container; containerd starts this command."`
}

type versionCmd struct{}

// Run prints the version on standard output.
func (versionCmd) Run() error {
	_, err := fmt.Println("gpuwhisk", version)
	return err
}

func main() {
	log.SetOutput(standardLog{})
	var c cli
	k, err := parse(&c, os.Args[1:])
	if err == nil {
		err = k.Run()
	}
	if err != nil {
		os.Exit(report(err))
	}
}

// statusError ends the process with an exit status. If its error is nil, nothing is
// printed.
type statusError struct {
	status int
	error
}

// report prints an error and returns its exit status.
func report(err error) int {
	own := statusError{status: 1}
	if errors.As(err, &own) {
		err = own.error
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpuwhisk:", err)
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, errLoadInterrupted) || errors.Is(err, demo.ErrInterrupted) {
		return 130 // as shells do
	}
	return own.status
}

// standardLog receives the lines that libraries print with package log. It drops
// net/http's lines about unsolicited responses, because they contain output of
// functions.
type standardLog struct{}

func (standardLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response")) {
		return len(line), nil
	}
	return os.Stderr.Write(line)
}
