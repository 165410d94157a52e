package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
)

// pastControllers is the warning for --invoker.
const pastControllers = "WARNING: this writes to the topic of invoker%d, bypassing all controllers: limits of namespaces do not apply,\n" +
	"and controllers do not know of the slots that these calls take. Ctrl-C stops sending; the calls already sent still run.\n"

// invoker connects to the topic of one invoker through Kafka. Its results are those of
// api.
func (c *loadCmd) invoker(ctx context.Context, actions []string, parameters []byte) (_ load.System, name string, end func() error, err error) {
	for _, a := range actions {
		if _, _, err := handover.SplitAction(a); err != nil {
			return nil, "", nil, err
		}
	}
	i, err := kafkaOf(c.EnvFile, *c.Invoker)
	if err != nil {
		return nil, "", nil, err
	}
	if !c.Quiet {
		fmt.Fprintf(os.Stderr, pastControllers, *c.Invoker)
	}
	l, err := i.Load(ctx, parameters)
	if err != nil {
		return nil, "", nil, err
	}
	return direct{l}, fmt.Sprintf("invoker%d", *c.Invoker), func() error { return l.Close(context.WithoutCancel(ctx)) }, nil
}

// direct is an invoker as a load.System.
type direct struct{ loader *handover.Loader }

// Invoke calls an action and waits for the result.
func (d direct) Invoke(ctx context.Context, action string) load.Answer {
	e, err := d.loader.Call(ctx, action)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return load.Answer{ID: e.ID, Failure: "no answer within --wait"}
	case err != nil:
		return load.Answer{ID: e.ID, Failure: "not sent", Detail: err.Error()}
	case e.Start == "": // an ack without its record has no further fields
		e.Start = load.Unknown
	}
	a := load.Answer{ID: e.ID, Start: e.Start, Ran: true}
	if e.Status != activation.StatusSuccess {
		a.Failure, a.Detail = activation.Response{StatusCode: e.Status}.Status(), "activation "+e.ID
	}
	return a
}

// Start adds nothing, because the ack already has the kind of start.
func (direct) Start(context.Context, string) string { return "" }
