package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"

	"github.com/gpuwhisk/gpuwhisk/invoker/engine/devices"
)

// fallbacksCmd lists and clears the actions whose GPU memory is only counted.
type fallbacksCmd struct {
	Clear    string `placeholder:"ACTION" help:"Let this action have its memory moved again: NAMESPACE/ACTION or NAMESPACE/PACKAGE/ACTION."`
	ClearAll bool   `name:"clear-all" help:"Let every action try again."`
	remote
}

// Help is the longer text of gpuwhisk fallbacks --help.
func (fallbacksCmd) Help() string {
	return `Some libraries fail when device memory is managed and moved: they share it
with other processes, or their kernels fail after it was moved. The invoker notices,
and from then on only counts what such an action holds, as if its annotation were
gpu: {"shim": "count"}. Its memory stays on the device, and its container is
removed where others need the memory.

That holds until it is cleared here, also across restarts. Clear an action when it
has other libraries now, or after a fault of the device that was not its own:

  gpuwhisk fallbacks --clear guest/images/resize`
}

// Validate refuses flags that contradict each other.
func (c *fallbacksCmd) Validate() error {
	if c.Clear != "" && c.ClearAll {
		return errors.New("--clear and --clear-all are one or the other")
	}
	return nil
}

// Run lists, or clears.
func (c fallbacksCmd) Run() error {
	ctx := interrupted()
	if c.Clear != "" || c.ClearAll {
		query := url.Values{"all": {"true"}}
		if c.Clear != "" {
			query = url.Values{"action": {c.Clear}}
		}
		var done struct{ Cleared int }
		if err := c.ask(ctx, http.MethodDelete, "fallbacks?"+query.Encode(), &done); err != nil {
			return err
		}
		fmt.Printf("cleared: %d\n", done.Cleared)
		return nil
	}
	var list []devices.Fallback
	if err := c.ask(ctx, http.MethodGet, "fallbacks", &list); err != nil {
		return err
	}
	return printFallbacks(os.Stdout, list)
}

func printFallbacks(out io.Writer, list []devices.Fallback) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "No action has fallen back: all GPU memory of actions that let it is moved.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ACTION\tSINCE\tREASON")
	for _, one := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", one.Action, one.Since.Format("2006-01-02 15:04:05Z"), one.Reason)
	}
	return w.Flush()
}
