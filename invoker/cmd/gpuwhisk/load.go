package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
	"github.com/gpuwhisk/gpuwhisk/sched/sim"
)

// loadCmd calls actions of a live OpenWhisk system.
type loadCmd struct {
	Actions []string `arg:"" optional:"" help:"Actions to call, the most popular first: NAME, PACKAGE/NAME or /NAMESPACE/[PACKAGE/]NAME."`

	Rate        float64       `default:"10" help:"Calls per second, over all actions; arrivals follow a Poisson process."`
	Zipf        float64       `default:"1" help:"Popularity: the share of the n-th action is proportional to n to the power of minus this; 0: all alike."`
	Seed        uint64        `default:"1" help:"Seed of the arrivals; the same seed leads to the same calls at the same times."`
	Trace       string        `placeholder:"FILE" type:"existingfile" help:"Take the arrivals from a trace instead. Its functions are names of actions, or stand for the given actions in order."`
	TraceFormat string        `default:"plain" enum:"plain,azure2021,activations" help:"Form of the trace (${enum}); plain has the columns arrival_ms,function."`
	Speed       float64       `default:"1" help:"Factor by which a trace is played faster."`
	Duration    time.Duration `short:"d" default:"30s" help:"Stop sending after this time."`
	Count       int           `short:"n" default:"10000" help:"Send at most this number of calls (up to 1000000)."`
	InFlight    int           `default:"500" help:"Most calls under way at once; further calls wait, which adds to their latency."`
	Wait        time.Duration `default:"5m" help:"Longest time to wait for one answer."`

	ParamFile string `short:"P" placeholder:"FILE" type:"existingfile" help:"JSON object with the parameters of each call."`
	NoRecords bool   `help:"Do not fetch records afterwards; the kind of start is then reported only for answers that contain it."`
	Insecure  bool   `short:"i" help:"Accept any certificate of the API, as wsk -i does."`
	JSON      bool   `name:"json" help:"Print the report as JSON."`
	Quiet     bool   `short:"q" help:"Print nothing before the report."`
	whisk
}

// Help is the longer text of gpuwhisk load --help.
func (loadCmd) Help() string {
	return `This loads a REAL system: the calls run, fill its queues, count against the
limits of the namespace and may cost money. Begin with a low --rate.

The load is open: a call is sent at its time even if earlier calls have not ended,
and its latency counts from that time. Calls are blocking. The kind of start
(gpu-warm, host-warm, cold ...) is read from the record of each call afterwards.
This works with any OpenWhisk and any invokers. Ctrl-C prints the results so far.

  gpuwhisk load infer                          # 10 calls a second for 30 s
  gpuwhisk load infer fft resnet --rate 50 --zipf 1.2 -d 5m -n 100000
  gpuwhisk load --trace calls.csv --speed 10 --json > report.json`
}

// errLoadInterrupted is the error after the report of an interrupted load.
var errLoadInterrupted = errors.New("interrupted")

// mostCalls is the largest number of calls whose results surely fit into memory.
const mostCalls = 1_000_000

// Validate checks the flags.
func (c *loadCmd) Validate() error {
	switch {
	case len(c.Actions) == 0 && c.Trace == "":
		return errors.New("give at least one action to call, or --trace")
	case c.Count < 1 || c.Count > mostCalls:
		return fmt.Errorf("--count %d: want 1 to %d", c.Count, mostCalls)
	case c.Duration <= 0 || c.Duration > 24*time.Hour:
		return fmt.Errorf("--duration %v: want more than 0 and at most 24h", c.Duration)
	case c.InFlight < 1 || c.InFlight > 20_000:
		return fmt.Errorf("--in-flight %d: want 1 to 20000", c.InFlight)
	case c.Wait <= 0 || c.Wait > 24*time.Hour:
		return fmt.Errorf("--wait %v: want more than 0 and at most 24h", c.Wait)
	case !(c.Speed > 0 && c.Speed <= 1e6):
		return fmt.Errorf("--speed %v: want more than 0 and at most 1000000", c.Speed)
	case c.Trace != "":
		return nil
	}
	return c.mix().Validate()
}

func (c *loadCmd) mix() load.Mix {
	return load.Mix{Actions: len(c.Actions), Rate: c.Rate, Zipf: c.Zipf, Count: c.Count, Seed: c.Seed}
}

// Run sends calls until the time is up, all calls are sent, or a signal arrives.
func (c *loadCmd) Run() (err error) {
	ctx := interrupted()
	var parameters []byte
	if c.ParamFile != "" {
		if parameters, err = os.ReadFile(c.ParamFile); err != nil {
			return fmt.Errorf("--param-file: %w", err)
		}
	}
	actions, arrivals, words, err := c.arrivals()
	if err != nil {
		return err
	}
	w := c.whisk.orOwn()
	if w.APIHost == "" || w.Auth == "" {
		return errors.New("no OpenWhisk to load: give --apihost and --auth, or use wsk property set")
	}
	client, err := load.NewClient(load.Access{APIHost: w.APIHost, Auth: w.Auth, Insecure: c.Insecure, InFlight: c.InFlight, Parameters: parameters})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Check(ctx, actions); err != nil {
		return err
	}
	return c.load(ctx, client, load.Options{
		Actions: actions, Arrivals: arrivals, Duration: c.Duration, InFlight: c.InFlight, Wait: c.Wait,
	}, load.Report{APIHost: w.APIHost, Load: words}, os.Stdout, os.Stderr)
}

// load calls the system and prints the report, which begins with head.
func (c *loadCmd) load(ctx context.Context, system load.System, o load.Options, head load.Report, out, aside io.Writer) error {
	line := newProgressLine(aside, c.Quiet)
	line.print("loading " + head.APIHost + ": " + head.Load)
	o.Progress = func(p load.Progress) { line.show(p.String(), p.At) }
	result := load.Run(ctx, o, system)
	if !c.NoRecords && ctx.Err() == nil {
		begin := time.Now()
		load.Starts(ctx, result, system, 10*time.Second, func(missing int) {
			line.show(fmt.Sprintf("fetching records: %d left", missing), time.Since(begin))
		})
	}
	line.end()
	report := load.Summarise(result, o.Actions)
	report.APIHost, report.Load = head.APIHost, head.Load
	var err error
	if c.JSON {
		err = prettyjson.Write(out, report)
	} else {
		err = report.Print(out)
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return errLoadInterrupted
	case report.Ran == 0:
		return errors.New("no call ran")
	}
	return nil
}

// arrivals returns the arrivals of the generated mix or of the trace, and the actions
// that the arrivals refer to by index.
func (c *loadCmd) arrivals() ([]string, iter.Seq[load.Arrival], string, error) {
	if c.Trace == "" {
		words := fmt.Sprintf("%d actions, Poisson %v/s, Zipf %v, seed %d, %v, at most %d calls",
			len(c.Actions), c.Rate, c.Zipf, c.Seed, c.Duration, c.Count)
		return c.Actions, c.mix().Arrivals(), words, nil
	}
	w, err := sim.Trace{File: c.Trace, Format: c.TraceFormat, NamesOnly: true}.Read(c.Seed)
	if err != nil {
		return nil, nil, "", err
	}
	actions := c.Actions
	if len(actions) == 0 {
		for _, function := range w.Functions {
			name := function.Name
			if c.TraceFormat == "activations" && strings.Contains(name, "/") {
				name = "/" + name // records begin with the namespace
			}
			actions = append(actions, name)
		}
	}
	words := fmt.Sprintf("trace %s at %v times its speed, %d functions, %v, at most %d calls",
		c.Trace, c.Speed, len(w.Functions), c.Duration, c.Count)
	return actions, func(yield func(load.Arrival) bool) {
		for i, a := range w.Arrivals {
			at := time.Duration(min(float64(a.At)/c.Speed, float64(48*time.Hour)))
			if i >= c.Count || !yield(load.Arrival{At: at, Action: int(a.Function) % len(actions)}) {
				return
			}
		}
	}, words, nil
}

// progressLine shows the progress of a long job. On a terminal it replaces its line;
// elsewhere it prints a new line from time to time.
type progressLine struct {
	w        io.Writer // nil: print nothing
	terminal bool
	printed  bool
	last     time.Duration
}

func newProgressLine(w io.Writer, quiet bool) *progressLine {
	if quiet {
		return &progressLine{}
	}
	f, ok := w.(*os.File)
	return &progressLine{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

func (l *progressLine) print(text string) {
	if l.w != nil {
		fmt.Fprintln(l.w, text)
	}
}

// apart is the minimum time between two lines that do not replace each other.
const apart = 10 * time.Second

func (l *progressLine) show(text string, at time.Duration) {
	switch {
	case l.w == nil:
	case l.terminal:
		if len(text) > 79 {
			text = text[:79]
		}
		fmt.Fprintf(l.w, "\r\x1b[K%s", text)
		l.printed = true
	case at-l.last >= apart || at < l.last:
		l.last = at
		l.print(text)
	}
}

// end clears the line for the following output.
func (l *progressLine) end() {
	if l.printed {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
}
