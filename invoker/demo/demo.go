// Package demo shows the main job end to end: it starts a standalone
// OpenWhisk, deploys CPU actions and GPU functions through OpenWhisk's own
// client library, drives load at them for a while, tells what happened to
// each, and checks with Kafka and with the database themselves that nothing
// was lost and nothing was done twice.
//
// GPUs are simulated and the functions only take time: the times that the
// MQFQ-Sticky paper measured (Table 1), divided by twenty. Where the shim and
// its fake driver are built, they take it on that driver and keep memory there,
// which is really moved out and in; elsewhere they sleep. The demo measures
// nothing about a machine; it shows that and how the parts work.
//
// Run starts a goroutine per call in flight, one that listens to acks and one
// that shows progress, and waits for all of them.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
)

// ErrMismatch says that invocations, acks and records do not agree.
var ErrMismatch = errors.New("invocations, acks and records do not agree")

// ErrInterrupted says that somebody ended the demo before its time.
var ErrInterrupted = errors.New("interrupted; nothing is left behind")

// Options is what a demo is made of.
type Options struct {
	Standalone standalone.Options // without Data: a temporary directory is used
	Machine    Machine            // what runs the functions
	Functions  []Function         // what is deployed and called
	Keep       bool               // stay when the report is printed, until ctx ends
	Admin      func() string      // the address of the invoker's admin door, once it is ready
	Load       time.Duration      // how long calls are made
	Seed       uint64             // of the arrivals
	Out        io.Writer
	Terminal   bool // Out is one: progress may rewrite its line
	Colour     bool
}

// readyTime bounds the start, drainTime the answers after the last call and
// the end of everything.
const (
	readyTime = 30 * time.Second
	drainTime = 75 * time.Second
)

// Run is the whole demo. Whatever happens, nothing stays behind.
func Run(ctx context.Context, o Options) (err error) {
	if len(o.Functions) == 0 {
		return errors.New("no functions to show: neither python3 nor node is on the PATH")
	}
	data, err := os.MkdirTemp("", "gpuwhisk-demo-")
	if err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	defer func() {
		if err != nil && ctx.Err() != nil { // whatever was under way says so in its own words
			err = ErrInterrupted
		}
		err = errors.Join(err, os.RemoveAll(data))
	}()
	o.Standalone.Data = data
	began := time.Now()
	start, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	s, err := standalone.Start(start, o.Standalone)
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		err = errors.Join(err, s.Stop(stop))
	}()
	if err := s.WaitReady(start); err != nil {
		return err
	}
	p := printer{o.Out, o.Terminal, o.Colour}
	p.say("OpenWhisk in one process, ready after %.1f s at %s", time.Since(began).Seconds(), s.Info().APIHost)
	p.say("actions run as %s (%s), %d GPU of %s, %s", s.Info().Runtime, s.Info().Why, o.Standalone.GPUs, o.Standalone.GPUMemory, o.Machine.how())
	if c := s.Console(); c != "" {
		p.say("watch it at %s", c)
	}
	if err := show(ctx, o, p, s); err != nil || !o.Keep {
		return err
	}
	p.say("\nkept: the console is at %s, wsk goes to %s; Ctrl-C ends it and removes everything", s.Console(), s.Info().APIHost)
	<-ctx.Done()
	return nil
}

// show deploys, drives, accounts and reports.
func show(ctx context.Context, o Options, p printer, s *standalone.Standalone) error {
	client, done, err := dial(s)
	if err != nil {
		return err
	}
	defer done()
	witness, err := listen(ctx, s.Info())
	if err != nil {
		return err
	}
	defer witness.close()
	for _, f := range o.Functions {
		if err := deploy(client, f); err != nil {
			return err
		}
	}
	p.say("deployed %s\n", names(o.Functions))
	calls, err := drive(ctx, client, o, p)
	if err != nil {
		return err
	}
	account, err := witness.account(ctx, calls)
	if err != nil {
		return err
	}
	moved := map[string]traffic(nil)
	if o.Machine.Driver {
		if moved, err = measure(ctx, o.Admin(), o.Functions); err != nil {
			return err
		}
	}
	p.table(o.Functions, calls, account.records, moved)
	if err := p.record(s.Info(), account.records); err != nil {
		return err
	}
	return p.check(calls, account)
}

// dial makes the client that any user of OpenWhisk would make.
func dial(s *standalone.Standalone) (*whisk.Client, func(), error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	client, err := whisk.NewClient(&http.Client{Transport: transport, Timeout: 2 * time.Minute}, &whisk.Config{
		Host: s.Info().APIHost, AuthToken: standalone.Guest().AuthKey(), Namespace: "_",
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make OpenWhisk client: %w", err)
	}
	return client, transport.CloseIdleConnections, nil
}

func deploy(client *whisk.Client, f Function) error {
	a := &whisk.Action{Name: f.Name, Exec: &whisk.Exec{Kind: f.Kind, Code: &f.Code}}
	if f.GPU != nil {
		a.Annotations = whisk.KeyValueArr{{Key: "gpu", Value: f.GPU}}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Parameters)) {
		a.Parameters = append(a.Parameters, whisk.KeyValue{Key: key, Value: f.Parameters[key]})
	}
	if _, _, err := client.Actions.Insert(a, true); err != nil { //nolint:bodyclose // the client has read it to its end
		return fmt.Errorf("deploy %s: %w", f.Name, err)
	}
	return nil
}

func names(functions []Function) string {
	text := ""
	for i, f := range functions {
		if i > 0 {
			text += ", "
		}
		text += f.Name
		if f.GPU != nil {
			text += " (gpu)"
		}
	}
	return text
}
