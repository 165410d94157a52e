package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/load"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
)

// pastControllers warns of what --invoker does.
const pastControllers = "WARNING: this writes to the topic of invoker%d, past all controllers: no limit of a namespace holds,\n" +
	"and controllers do not know of the slots that these calls take. Ctrl-C ends it; what is sent runs on.\n"

// invoker connects to the topic of one invoker through Kafka, as api does.
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

// direct is an invoker as a system to load.
type direct struct{ loader *handover.Loader }

// Invoke calls an action and waits for its result.
func (d direct) Invoke(ctx context.Context, action string) load.Answer {
	e, err := d.loader.Call(ctx, action)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return load.Answer{ID: e.ID, Failure: "no answer within --wait"}
	case err != nil:
		return load.Answer{ID: e.ID, Failure: "not sent", Detail: err.Error()}
	case e.Start == "": // an ack without its record has no more
		e.Start = load.Unknown
	}
	a := load.Answer{ID: e.ID, Start: e.Start, Ran: true}
	if e.Status != activation.StatusSuccess {
		a.Failure, a.Detail = activation.Response{StatusCode: e.Status}.Status(), "activation "+e.ID
	}
	return a
}

// Start has nothing to add: the ack has it.
func (direct) Start(context.Context, string) string { return "" }
