package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
)

// simReplayCmd replays a recording in a scheduler.
type simReplayCmd struct {
	File  string `arg:"" type:"existingfile" help:"File that an invoker recorded (whisk.gpu.record)."`
	Check bool   `help:"Check all invariants after every event."`
}

// Help is the longer text of gpuwhisk sim replay --help.
func (simReplayCmd) Help() string {
	return `An invoker with CONFIG_whisk_gpu_record=FILE writes every event that its GPU scheduler
received and every order that it gave. This command feeds the events to a scheduler again and compares
its orders with the file, byte for byte. If the orders are the same, the file explains a
strange decision completely: send it with a report. If they differ, this version decides
otherwise.

  gpuwhisk sim replay /var/lib/gpuwhisk/scheduler.log

The file contains names of namespaces and actions, sizes and times, but no parameters, code
or keys.`
}

// Run replays the file.
func (c simReplayCmd) Run() error {
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.replay(f, os.Stdout)
}

func (c simReplayCmd) replay(log io.Reader, out io.Writer) error {
	r := &scheduler.Replay{Check: c.Check}
	in := bufio.NewReaderSize(log, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && r.Scheduler() == nil && len(line) == 0:
			return fmt.Errorf("%s: empty", c.File)
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				fmt.Fprintf(out, "the last line is incomplete and was skipped\n")
			}
			s := r.Scheduler().Stats()
			fmt.Fprintf(out, "the same orders: %d events gave %d orders on %d devices under %s, in %s of the invoker's time\n",
				r.Events, r.Orders, len(s.Devices), s.Policy, r.Scheduler().Now())
			return nil
		case err != nil:
			return err
		}
		if err := r.Line(line); err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
	}
}
