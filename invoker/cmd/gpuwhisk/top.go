package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/top"
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
	return `Keys: s sorts by the next column, / filters, p pauses the screen, q quits.

  gpuwhisk top
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

// Run shows the screen until q or a signal arrives.
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
	ask := func(ctx context.Context) (*top.Snapshot, error) {
		var s top.Snapshot
		return &s, c.remote.get(ctx, "snapshot", &s)
	}
	first, err := ask(ctx)
	if err != nil {
		return err
	}
	if c.Once || !term.IsTerminal(int(os.Stdout.Fd())) {
		return top.Print(os.Stdout, first, c.Sort, c.Filter)
	}
	return top.Show(ctx, top.Options{Ask: ask, Sort: c.Sort, Filter: c.Filter})
}
