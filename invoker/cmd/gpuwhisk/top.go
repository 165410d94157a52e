package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/top"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// topCmd shows the state of an invoker in the terminal.
type topCmd struct {
	Once   bool   `help:"Print once and exit; the default without a terminal."`
	JSON   bool   `name:"json" help:"Print the whole snapshot as JSON; with --once."`
	Sort   string `default:"queued" enum:"queued,running,lead,wait,latency,calls,name" help:"Sort the functions by this column (${enum})."`
	Filter string `placeholder:"TEXT" help:"Show only functions whose name contains this text, or whose state is this word."`
	remote
}

// Help is the longer text of gpuwhisk top --help.
func (topCmd) Help() string {
	return `On a terminal the table is printed again every second, until Ctrl-C.

  gpuwhisk top
  gpuwhisk top --sort wait --filter throttled
  gpuwhisk top --host http://gpu7:8080
  gpuwhisk top --once --json | jq .status.work.devices`
}

// Validate checks the flags.
func (c *topCmd) Validate() error {
	if c.JSON && !c.Once {
		return errors.New("--json: needs --once")
	}
	return nil
}

// Run prints the state: once, or on a terminal again and again until a signal arrives.
func (c topCmd) Run() error {
	ctx := interrupted()
	if c.JSON {
		var all json.RawMessage
		if err := c.remote.get(ctx, "snapshot", &all); err != nil {
			return err
		}
		_, err := os.Stdout.Write(append(all, '\n'))
		return err
	}
	out := int(os.Stdout.Fd())
	if c.Once || !term.IsTerminal(out) {
		return c.print(ctx, os.Stdout)
	}
	for {
		var text bytes.Buffer
		if err := c.print(ctx, &text); err != nil {
			fmt.Fprintln(&text, "no answer, trying again:", err)
		}
		width, height, err := term.GetSize(out)
		if err != nil {
			return fmt.Errorf("find the size of the terminal: %w", err)
		}
		const clear = "\x1b[H\x1b[2J"
		fmt.Print(clear + top.Fit(text.String(), width, height))
		if !retry.Sleep(ctx, time.Second) {
			return nil
		}
	}
}

// print prints the present state.
func (c topCmd) print(ctx context.Context, w io.Writer) error {
	var s top.Snapshot
	if err := c.remote.get(ctx, "snapshot", &s); err != nil {
		return err
	}
	return top.Print(w, &s, c.Sort, c.Filter)
}
