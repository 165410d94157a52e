// Command gpuwhisk is the one binary of GPU Whisk: the invoker that joins an
// Apache OpenWhisk cluster, a one-process OpenWhisk for development, and the
// scheduling simulator. It only wires packages together: every decision lives in
// a package of its own. It is the only place, with its files in this
// directory, that reads the environment or exits the process.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/alecthomas/kong"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/demo"
)

// version is set by the linker (-X main.version=...).
var version = "dev"

// cli is the whole command line. Each command is a struct in a file of its
// own whose Run method kong calls.
type cli struct {
	Invoker    invokerCmd    `cmd:"" help:"Join an OpenWhisk cluster in the place of its own invoker."`
	Standalone standaloneCmd `cmd:"" help:"Run a whole OpenWhisk in one process, for development."`
	Demo       demoCmd       `cmd:"" help:"Show fcfs and fair queueing side by side on a simulated GPU, about a minute."`
	Top        topCmd        `cmd:"" help:"Watch an invoker in the terminal: devices, functions, last activations."`
	Fallbacks  fallbacksCmd  `cmd:"" help:"List the actions whose GPU memory an invoker only counts because their libraries fail when it is moved, or let them try again."`
	Explain    explainCmd    `cmd:"" help:"Explain an activation: why it waited, how it started, how it ended."`
	Load       loadCmd       `cmd:"" help:"Call actions of a live OpenWhisk at a rate or from a trace, and report the latencies."`
	New        newCmd        `cmd:"" help:"Write a GPU function to start from, with its test, and print what to do next."`
	Sim        simCmd        `cmd:"" help:"Simulate scheduling: policies, workloads, the paper's claims."`
	Doctor     doctorCmd     `cmd:"" help:"Examine this host and its invoker's settings; report what is wrong and how to fix it."`
	GPUCheck   gpuCheckCmd   `cmd:"" name:"gpu-check" help:"Try and measure the GPU of this machine under the shim; write the results to files."`
	Ping       pingCmd       `cmd:"" help:"Ask the invoker of this host whether it takes work."`
	Drained    drainedCmd    `cmd:"" help:"Wait until an invoker has answered all that was sent to it."`
	Probe      probeCmd      `cmd:"" help:"Run one activation through an invoker and wait for its ack."`
	Clean      cleanCmd      `cmd:"" help:"Remove action containers that an invoker left behind."`
	Completion completionCmd `cmd:"" help:"Print a script by which a shell completes this command line."`
	Version    versionCmd    `cmd:"" help:"Print the version."`

	Man         manCmd           `cmd:"" hidden:"" help:"Write the manual's pages."`
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version and exit."`

	NativeProxy nativeProxyCmd `cmd:"" hidden:"" help:"Be the action proxy of executables."`
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

// statusError ends the process with a status of its own. Without an error in it
// nothing is printed.
type statusError struct {
	status int
	error
}

// report prints an error, and returns the exit status that it has.
func report(err error) int {
	own := statusError{status: 1}
	if errors.As(err, &own) {
		err = own.error
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpuwhisk:", err)
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, errLoadInterrupted) || errors.Is(err, demo.ErrInterrupted) {
		return 130 // as a shell has it
	}
	return own.status
}

// standardLog takes what libraries print by package log. It leaves out what
// net/http prints of unsolicited responses: they are the output of
// functions.
type standardLog struct{}

func (standardLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response")) {
		return len(line), nil
	}
	return os.Stderr.Write(line)
}
