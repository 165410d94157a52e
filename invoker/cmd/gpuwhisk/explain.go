package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
)

// explainCmd explains how an activation ran.
type explainCmd struct {
	Activation string `arg:"" help:"Activation id, from wsk activation list."`
	JSON       bool   `name:"json" help:"Print the trace as JSON."`
	remote
	whisk
}

// Help is the longer text of gpuwhisk explain --help.
func (explainCmd) Help() string {
	return `Shows why an activation waited and behind which functions, how it started, which
functions ran beside it, and when its record was safe. The invoker keeps its last 10,000
activations (whisk.gpu.explain). An older activation is explained from its record, which
contains less.

  gpuwhisk explain $(wsk activation list --limit 1 | awk 'NR==2 {print $3}')`
}

var activationID = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)

// Validate checks the id.
func (c *explainCmd) Validate() error {
	if c.Activation == "" {
		return errors.New("give the id of an activation; wsk activation list prints ids")
	}
	if !activationID.MatchString(c.Activation) {
		return fmt.Errorf("%q is no activation id: want 32 hexadecimal digits", c.Activation)
	}
	return nil
}

// Run prints the trace.
func (c explainCmd) Run() error {
	ctx := interrupted()
	var t explain.Explanation
	err := c.remote.get(ctx, "explain/"+c.Activation, &t)
	if err != nil {
		var fallback error
		if t, fallback = c.fromRecord(ctx); fallback != nil {
			return errors.Join(err, fallback)
		}
	}
	return c.print(os.Stdout, t)
}

func (c explainCmd) fromRecord(ctx context.Context) (explain.Explanation, error) {
	b, err := c.whisk.orOwn().record(ctx, c.Activation)
	if err != nil {
		return explain.Explanation{}, err
	}
	a, err := explain.FromRecord(b)
	if err != nil {
		return explain.Explanation{}, err
	}
	return explain.Explain(a), nil
}

func (c explainCmd) print(w io.Writer, t explain.Explanation) error {
	if c.JSON {
		return prettyjson.Write(w, t)
	}
	from := ""
	if t.Trace.FromRecord {
		from = ", only from its record"
	}
	fmt.Fprintf(w, "%s of %s%s\n\n", t.Trace.ID, explain.FunctionName(t.Trace.Function()), from)
	for _, s := range t.Sentences {
		at := "            "
		if !s.At.IsZero() {
			at = s.At.Local().Format("15:04:05.000")
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", at, s.Text); err != nil {
			return err
		}
	}
	return nil
}
