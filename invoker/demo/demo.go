// Package demo shows the main job end to end, and what the scheduler is good
// for: under each of two policies it starts a standalone OpenWhisk, deploys CPU
// actions and GPU functions through OpenWhisk's own client library, drives the
// same calls at them, and checks with Kafka and with the database themselves
// that nothing was lost and nothing was done twice. Then it shows side by side
// what became of each function.
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

	"github.com/gpuwhisk/gpuwhisk/activation"
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
	// Policies are compared: under each in turn a fresh installation gets the
	// same calls. The last is the one that the demo is about.
	Policies []string
	Memory   bool          // show first what becomes of device memory; needs Machine.Driver
	Keep     bool          // stay when the report is printed, until ctx ends
	Admin    func() string // the address of the invoker's admin port, once it is ready
	Load     time.Duration // how long calls are made, under each policy
	Seed     uint64        // of the arrivals
	Out      io.Writer
	Terminal bool // Out is one: progress may rewrite its line
	Colour   bool
}

// readyTime bounds the start, drainTime the answers after the last call and
// the end of everything.
const (
	readyTime = 2 * time.Minute // a machine may have much else to do
	drainTime = 75 * time.Second
)

// Run is the whole demo. Whatever happens, nothing stays behind.
func Run(ctx context.Context, o Options) error {
	if len(o.Functions) == 0 {
		return errors.New("no functions to show: neither python3 nor node is on the PATH")
	}
	p := printer{o.Out, o.Terminal, o.Colour}
	p.introduce(o)
	if o.Memory {
		if err := showMemory(ctx, o, p); err != nil {
			return err
		}
	}
	var rounds []round
	for i, policy := range o.Policies {
		o.Standalone.Policy = policy
		last := i == len(o.Policies)-1
		err := install(ctx, o, p, last, func(s *standalone.Standalone) error {
			r, err := play(ctx, o, p, s)
			rounds = append(rounds, r)
			if err != nil || !last {
				return err
			}
			return p.report(o, rounds)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// install runs a whole OpenWhisk for as long as use takes, and longer where
// that is the last and is to be kept.
func install(ctx context.Context, o Options, p printer, last bool, use func(*standalone.Standalone) error) (err error) {
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
	p.started(s, o.Standalone.Policy, time.Since(began))
	if err := use(s); err != nil || !last {
		return err
	}
	if !o.Keep {
		p.say("gpuwhisk demo --keep stays at this point, with a console in the browser.")
		return nil
	}
	p.say("Kept. The console is at %s\nwsk goes to %s; Ctrl-C ends it and removes everything.", s.Console(), s.Info().APIHost)
	<-ctx.Done()
	return nil
}

// round is what happened under one policy.
type round struct {
	policy  string
	calls   []call
	records map[string]*activation.Record
	moved   traffic
}

// play deploys, drives and accounts.
func play(ctx context.Context, o Options, p printer, s *standalone.Standalone) (round, error) {
	r := round{policy: o.Standalone.Policy}
	client, done, err := dial(s)
	if err != nil {
		return r, err
	}
	defer done()
	witness, err := listen(ctx, s.Info())
	if err != nil {
		return r, err
	}
	defer witness.close()
	for _, f := range o.Functions {
		if err := deploy(client, f); err != nil {
			return r, err
		}
	}
	if r.calls, err = drive(ctx, client, o, p); err != nil {
		return r, err
	}
	account, err := witness.account(ctx, r.calls)
	if err != nil {
		return r, err
	}
	r.records = account.records
	if o.Machine.Driver {
		if r.moved, err = measure(ctx, o.Admin()); err != nil {
			return r, err
		}
	}
	return r, p.check(r.calls, account)
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
