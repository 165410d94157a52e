package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
)

// ErrMemory means that a function did not find its device memory as it had left
// it.
var ErrMemory = errors.New("device memory was lost")

// The device of this part holds the small ones or the large one, not both. The
// paper's own policy starts a second container where the first is in use; the
// default one may find that waiting is shorter.
const (
	memoryMB     = 80
	smallMB      = 16
	largeMB      = 66
	memoryPolicy = "mqfq-sticky"
)

// memoryStep is a call of the tour, made while others run.
type memoryStep struct {
	what, function string
	others         int
	busy           string // the function of the others
	start          string // what the step is about, where others run
}

var memoryTour = []memoryStep{
	{what: "the first call loads it", function: "small"},
	{what: "it is still there", function: "small"},
	{what: "two calls at once, one container", function: "small", others: 1, busy: "small", start: "busy-cold"},
	{what: "another one needs all the memory", function: "large"},
	{what: "and it comes back from the host", function: "small"},
	{what: "out again", function: "large"},
	{what: "while it waits behind two others", function: "small", others: 2, busy: "tiny", start: "gpu-warm"},
}

// How long the others' calls take, in milliseconds.
const leastBusy, mostBusy = 1500, 16 * 1500

// memoryCall is what became of a call.
type memoryCall struct {
	function, start string
	runs            int
	intact          bool
	err             error
}

// showMemory shows, one call after the other on an installation of its own, how
// calls of GPU functions start and where their memory is meanwhile.
func showMemory(ctx context.Context, o Options, p printer) error {
	o.Standalone.Policy = memoryPolicy
	o.Standalone.GPUMemory = memoryMB * activation.MB
	return install(ctx, o, p, func(s *standalone.Standalone) error {
		client, done, err := dial(s)
		if err != nil {
			return err
		}
		defer done()
		for _, f := range []Function{keeper("small", smallMB), keeper("large", largeMB), keeper("tiny", 1)} {
			if err := deploy(client, f); err != nil {
				return err
			}
		}
		title := fmt.Sprintf("memory on a simulated GPU of %d MB", memoryMB)
		p.line("%s", p.paint(bold, fmt.Sprintf("%-34s %-6s %-10s %6s %6s  %s", title, "call", "start", "out MB", "in MB", "contents")))
		t := tour{p: p, client: client, admin: o.Standalone.Admin}
		for _, step := range memoryTour {
			if err := t.do(ctx, step); err != nil {
				return err
			}
		}
		p.line("")
		if t.lost {
			return ErrMemory
		}
		return nil
	})
}

// tour makes the calls and prints what became of them.
type tour struct {
	p      printer
	client *whisk.Client
	admin  func() string
	before deviceUse // as of the last line
	lost   bool
}

// do makes a step's call. On a busy machine the others may end before it starts as
// it is to: then all are made again, and the others take twice the time.
func (t *tour) do(ctx context.Context, s memoryStep) error {
	for ms := leastBusy; ; ms *= 2 {
		calls, err := t.among(ctx, s, ms)
		if err != nil {
			return err
		}
		if s.others == 0 || calls[s.others].start == s.start || ms >= mostBusy {
			return t.show(ctx, s, calls)
		}
		if s.busy != s.function { // its memory has to be out again
			if err := t.call("large", 0).err; err != nil {
				return err
			}
			if t.before, err = readDeviceUse(ctx, t.admin()); err != nil {
				return err
			}
		}
	}
}

// among makes a step's call while the others run, and returns it behind them.
func (t *tour) among(ctx context.Context, s memoryStep, ms int) ([]memoryCall, error) {
	busy := make(chan memoryCall, s.others)
	for range s.others {
		go func() { busy <- t.call(s.busy, ms) }()
	}
	err := poll(ctx, func() (bool, error) {
		now, err := readDeviceUse(ctx, t.admin())
		return int(now.running) == s.others || len(busy) == s.others, err
	})
	if err != nil {
		return nil, err
	}
	last := t.call(s.function, 0)
	var calls []memoryCall
	for range s.others {
		calls = append(calls, <-busy)
	}
	calls = append(calls, last)
	for _, c := range calls {
		err = errors.Join(err, c.err)
	}
	return calls, err
}

// call makes a blocking call, whose answer is the activation's record.
func (t *tour) call(function string, ms int) memoryCall {
	answer, _, err := t.client.Actions.Invoke(function, map[string]any{"ms": ms}, true, false) //nolint:bodyclose // the client has read it to its end
	text, _ := json.Marshal(answer)                                                            // it was JSON
	var record struct {
		Annotations activation.Annotations
		Response    struct {
			Result struct {
				Runs   int
				Intact bool
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	result := record.Response.Result
	if err == nil && result.Runs == 0 {
		err = fmt.Errorf("%s answered %s", function, text)
	}
	run, _ := record.Annotations.GPURun()
	return memoryCall{function: function, start: run.Start, runs: result.Runs, intact: result.Intact, err: err}
}

// show prints a line for each call, with what was moved since the last one.
func (t *tour) show(ctx context.Context, s memoryStep, calls []memoryCall) error {
	now, err := readDeviceUse(ctx, t.admin())
	if err != nil {
		return err
	}
	what := s.what
	amounts := fmt.Sprintf("%6.0f %6.0f", (now.out-t.before.out)/(1<<20), (now.in-t.before.in)/(1<<20))
	for _, c := range calls {
		contents := "new"
		if c.runs > 1 {
			contents = t.p.paint(green, "as it was left")
		}
		if !c.intact {
			contents, t.lost = t.p.paint(red, "LOST"), true
		}
		if c.function == s.function {
			t.p.line("%-34s %-6s %-10s %13s  %s", what, c.function, c.start, amounts, contents)
			what, amounts = "", ""
		}
	}
	if s.busy == "tiny" && calls[s.others].start == s.start {
		t.p.line("  its memory came in before its turn (prefetch), while the others ran")
	}
	t.before = now
	return nil
}
