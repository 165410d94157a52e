package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
)

// fallbacksCmd lists or clears the actions whose GPU memory is counted but not moved.
type fallbacksCmd struct {
	Clear    string `placeholder:"ACTION" help:"Move this action's memory again: NAMESPACE/ACTION or NAMESPACE/PACKAGE/ACTION."`
	ClearAll bool   `name:"clear-all" help:"Move the memory of every action again."`
	remote
}

// Help is the longer text of gpuwhisk fallbacks --help.
func (fallbacksCmd) Help() string {
	return `Some libraries fail when device memory is managed and moved: they share it
with other processes, or their kernels fail after it was moved. The invoker notices,
and from then on only counts the memory of such an action, as if its annotation were
gpu: {"shim": "count"}. Its memory stays on the device, and its container is
removed if others need the memory.

The fallback survives restarts and lasts until it is cleared here. Clear an action after
its libraries have changed, or after a device fault that it did not cause:

  gpuwhisk fallbacks --clear guest/images/resize

gpuwhisk standalone does not serve this list.`
}

// Validate refuses flags that contradict each other.
func (c *fallbacksCmd) Validate() error {
	if c.Clear != "" && c.ClearAll {
		return errors.New("--clear and --clear-all exclude each other: give one")
	}
	return nil
}

// Run lists or clears the fallbacks.
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
		_, err := fmt.Fprintln(out, "No action has fallen back: the GPU memory of all actions that allow it is moved.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ACTION\tSINCE\tREASON")
	for _, one := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", one.Action, one.Since.Format("2006-01-02 15:04:05Z"), one.Reason)
	}
	return w.Flush()
}
