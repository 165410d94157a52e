// Package demo shows the main job end to end, and the effect of the scheduler. For each
// of two policies it starts a standalone OpenWhisk, deploys CPU actions and GPU
// functions through OpenWhisk's client library, makes the same calls, and checks in
// Kafka and in the database that no activation was lost or ran twice. Then it shows
// both results side by side.
//
// The GPUs are simulated, and the functions only take time: the times in Table 1 of the
// MQFQ-Sticky paper, divided by twenty. If the shim and its fake driver are built, the
// functions run on that driver and keep memory there, which is really moved out and
// in; otherwise they sleep. The demo shows that and how the parts work. It does not
// measure the speed of a machine.
//
// Run starts a goroutine that reads acks, and the goroutines of package load. All end
// before Run returns.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
)

// ErrInterrupted means that the user ended the demo before its time.
var ErrInterrupted = errors.New("interrupted; nothing is left behind")

// Options sets the parts of a demo.
type Options struct {
	Standalone standalone.Options // with Admin, and without Data: a temporary directory is used
	Machine    Machine            // runs the functions
	Functions  []Function         // deployed and called
	// Policies are compared: a fresh installation with each policy gets the same calls.
	// The last policy is the subject of the demo.
	Policies []string
	Memory   bool          // first show how device memory moves; needs Machine.Driver
	Keep     bool          // stay when the report is printed, until ctx ends
	Load     time.Duration // how long calls are made, under each policy
	Seed     uint64        // of the arrivals
	Out      io.Writer
	Terminal bool // Out is a terminal: progress rewrites its line, and the main results are bold
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
	p := printer{o.Out, o.Terminal}
	p.introduce(o)
	if o.Memory {
		if err := showMemory(ctx, o, p); err != nil {
			return err
		}
	}
	var rounds []round
	for i, policy := range o.Policies {
		o.Standalone.Policy = policy
		err := install(ctx, o, p, func(s *standalone.Standalone) error {
			r, err := play(ctx, o, p, s)
			rounds = append(rounds, r)
			if err != nil || i < len(o.Policies)-1 {
				return err
			}
			if err := p.report(o.Functions, rounds); err != nil {
				return err
			}
			if !o.Keep {
				p.line("gpuwhisk demo --keep stays at this point, with a console in the browser.")
				return nil
			}
			p.line("Kept. The console is at %s\nwsk goes to %s; Ctrl-C ends it and removes everything.", s.Console(), s.Info().APIHost)
			<-ctx.Done()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// install runs a whole OpenWhisk for as long as use takes.
func install(ctx context.Context, o Options, p printer, use func(*standalone.Standalone) error) (err error) {
	data, err := os.MkdirTemp("", "gpuwhisk-demo-")
	if err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	defer func() {
		if err != nil && ctx.Err() != nil { // each step has an error of its own for the end of ctx
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
	return use(s)
}

// round holds the results under one policy.
type round struct {
	policy  string
	calls   []load.Call
	records []*activation.Record
	moved   moved // on the driver
}

// play deploys, calls and checks.
func play(ctx context.Context, o Options, p printer, s *standalone.Standalone) (r round, err error) {
	r.policy = o.Standalone.Policy
	if err := deploy(s, o.Functions); err != nil {
		return r, err
	}
	ids, stop, err := readAcks(ctx, s.Info().Kafka)
	if err != nil {
		return r, err
	}
	defer stop()
	result, err := callAll(ctx, o, s, arrivals(o.Functions, o.Load, o.Seed), p.progress)
	if err != nil {
		return r, err
	}
	p.answered(result)
	r.calls = result.Calls
	var acks []string
	if acks, r.records, err = settle(ctx, s.Info(), ids, len(r.calls)); err != nil {
		return r, err
	}
	if o.Machine.Driver {
		if r.moved, err = readMoved(ctx, o.Standalone.Admin()); err != nil {
			return r, err
		}
	}
	return r, p.check(r.calls, acks, r.records)
}

// dial makes the client that any user of OpenWhisk would make.
func dial(s *standalone.Standalone) (*whisk.Client, error) {
	client, err := whisk.NewClient(&http.Client{Timeout: 2 * time.Minute}, &whisk.Config{
		Host: s.Info().APIHost, AuthToken: s.Info().Guest().AuthKey(), Namespace: "_",
	})
	if err != nil {
		return nil, fmt.Errorf("make OpenWhisk client: %w", err)
	}
	return client, nil
}

func deploy(s *standalone.Standalone, functions []Function) error {
	client, err := dial(s)
	if err != nil {
		return err
	}
	for _, f := range functions {
		a := &whisk.Action{Name: f.Name, Exec: &whisk.Exec{Kind: f.Kind, Code: &f.Code}}
		if f.GPU != nil {
			a.Annotations = whisk.KeyValueArr{{Key: "gpu", Value: f.GPU}, {Key: "invoker-resources", Value: []string{"gpu"}}}
		}
		for _, key := range slices.Sorted(maps.Keys(f.Parameters)) {
			a.Parameters = append(a.Parameters, whisk.KeyValue{Key: key, Value: f.Parameters[key]})
		}
		if _, _, err := client.Actions.Insert(a, true); err != nil { //nolint:bodyclose // the client has read it to its end
			return fmt.Errorf("deploy %s: %w", f.Name, err)
		}
	}
	return nil
}

// arrivals draws Poisson arrivals for every function. The same seed gives the
// same calls at the same times.
func arrivals(functions []Function, duration time.Duration, seed uint64) []load.Arrival {
	var all []load.Arrival
	for i, f := range functions {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		gap := func() time.Duration { return time.Duration(r.ExpFloat64() / f.Rate * float64(time.Second)) }
		for at := gap(); at < duration; at += gap() {
			all = append(all, load.Arrival{At: at, Action: i})
		}
	}
	slices.SortStableFunc(all, func(a, b load.Arrival) int { return int(a.At - b.At) })
	return all
}

// callAll makes the calls at their times, even while earlier ones are under way, and
// returns when all are answered.
func callAll(ctx context.Context, o Options, s *standalone.Standalone, calls []load.Arrival, progress func(load.Progress)) (*load.Result, error) {
	client, err := load.NewClient(load.Access{
		APIHost: s.Info().APIHost, Auth: s.Info().Guest().AuthKey(), Parameters: []byte(`{"name":"Ada"}`), InFlight: 256,
	})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	result := load.Run(ctx, load.Options{
		Actions: names(o.Functions), Arrivals: slices.Values(calls), Duration: time.Hour, // they end by themselves
		InFlight: max(len(calls), 1), Wait: 2 * time.Minute, Progress: progress,
	}, client)
	if result.Interrupted {
		return nil, ErrInterrupted
	}
	return result, nil
}
