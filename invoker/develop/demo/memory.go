package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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

// memoryTour shows, one call after the other on an installation of its own, how
// calls of GPU functions start and where their memory is meanwhile.
type memoryTour struct {
	p      printer
	admin  func() string
	client *whisk.Client
	before traffic // as of the last line
	lost   bool
}

// showMemory runs the tour.
func showMemory(ctx context.Context, o Options, p printer) error {
	o.Standalone.Policy = memoryPolicy
	o.Standalone.GPUMemory = memoryMB * activation.MB
	return install(ctx, o, p, false, func(s *standalone.Standalone) error {
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
		m := &memoryTour{p: p, admin: o.Standalone.Admin, client: client}
		return m.run(ctx)
	})
}

func (m *memoryTour) run(ctx context.Context) error {
	title := fmt.Sprintf("memory on a simulated GPU of %d MB", memoryMB)
	m.p.line("%s", m.p.paint(bold, fmt.Sprintf("%-34s %-6s %-10s %6s %6s  %s", title, "call", "start", "out MB", "in MB", "contents")))
	once := func(name string) func(context.Context, string) error {
		return func(ctx context.Context, what string) error { return m.show(ctx, what, m.call(name, 0)) }
	}
	for _, step := range []struct {
		what string
		do   func(ctx context.Context, what string) error
	}{
		{"the first call loads it", once("small")},
		{"it is still there", once("small")},
		{"two calls at once, one container", m.both},
		{"another one needs all the memory", once("large")},
		{"and it comes back from the host", once("small")},
		{"out again", once("large")},
		{"while it waits behind two others", m.prefetched},
	} {
		if err := step.do(ctx, step.what); err != nil {
			return err
		}
	}
	m.p.line("")
	if m.lost {
		return ErrMemory
	}
	return nil
}

// How long the calls run during which others are made, in milliseconds. On a busy
// machine they may end too early, and are made again for twice the time.
const leastBusy, mostBusy = 1500, 16 * 1500

// both makes a call beside one that runs.
func (m *memoryTour) both(ctx context.Context, what string) error {
	for busy := leastBusy; ; busy *= 2 {
		first, err := m.occupy(ctx, "small", 1, busy)
		if err != nil {
			return err
		}
		second := m.call("small", 0)
		if c := <-first; second.start == "busy-cold" || busy >= mostBusy || errors.Join(c.err, second.err) != nil {
			return m.show(ctx, what, c, second)
		}
	}
}

// prefetched keeps both slots of the device busy, and shows that the memory of
// the next call comes in meanwhile. Where it came too late, the large function
// evicts that memory again, and all is repeated.
func (m *memoryTour) prefetched(ctx context.Context, what string) error {
	for busy := leastBusy; ; busy *= 2 {
		c, came, err := m.behindOthers(ctx, busy)
		if err != nil {
			return err
		}
		if came > 0 || busy >= mostBusy {
			if err := m.show(ctx, what, c); err != nil {
				return err
			}
			m.p.line("  %.0f MB came in before its turn (prefetch), while the others ran", came/(1<<20))
			return nil
		}
		if c := m.call("large", 0); c.err != nil {
			return c.err
		}
		if m.before, err = moved(ctx, m.admin()); err != nil {
			return err
		}
	}
}

// behindOthers makes a call behind two others, and returns how many bytes of
// its memory came in before its turn.
func (m *memoryTour) behindOthers(ctx context.Context, busy int) (c memoryCall, came float64, err error) {
	others, err := m.occupy(ctx, "tiny", 2, busy)
	if err != nil {
		return c, 0, err
	}
	next := make(chan memoryCall, 1)
	go func() { next <- m.call("small", 0) }()
	err = poll(ctx, func() (bool, error) {
		now, err := moved(ctx, m.admin())
		if err != nil || len(next) > 0 {
			return true, err // answered: too late to be ahead
		}
		came = now.in - m.before.in
		return came >= smallMB<<20, nil
	})
	if err != nil {
		return c, 0, err
	}
	if err := errors.Join((<-others).err, (<-others).err); err != nil {
		return c, 0, err
	}
	if c = <-next; c.start == "gpu-warm" { // it was out, and all of it was there at its turn
		came = max(came, smallMB<<20)
	}
	return c, came, c.err
}

// occupy makes n calls that take so many milliseconds, and waits until they run.
func (m *memoryTour) occupy(ctx context.Context, name string, n, busy int) (answers chan memoryCall, err error) {
	answers = make(chan memoryCall, n)
	for range n {
		go func() { answers <- m.call(name, busy) }()
	}
	return answers, poll(ctx, func() (bool, error) {
		now, err := metric(ctx, m.admin(), "gpuwhisk_gpu_runs_in_flight", "")
		return int(now) == n || len(answers) == n, err
	})
}

// memoryCall is what became of a call.
type memoryCall struct {
	name, start string
	runs        int
	intact      bool
	err         error
}

// call makes a blocking call, whose answer is the activation's record.
func (m *memoryTour) call(name string, ms int) memoryCall {
	answer, _, err := m.client.Actions.Invoke(name, map[string]any{"ms": ms}, true, false) //nolint:bodyclose // the client has read it to its end
	text, _ := json.Marshal(answer)                                                        // it was JSON
	var record struct {
		Annotations activation.Annotations `json:"annotations"`
		Response    struct {
			Result struct {
				Runs   int  `json:"runs"`
				Intact bool `json:"intact"`
			} `json:"result"`
		} `json:"response"`
	}
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err == nil && record.Response.Result.Runs == 0 {
		err = fmt.Errorf("%s answered %s", name, text)
	}
	run, _ := record.Annotations.GPURun()
	return memoryCall{name, run.Start, record.Response.Result.Runs, record.Response.Result.Intact, err}
}

// show prints a line for each call, with what was moved since the last one.
func (m *memoryTour) show(ctx context.Context, what string, calls ...memoryCall) error {
	now, err := moved(ctx, m.admin())
	if err != nil {
		return err
	}
	for i, c := range calls {
		if c.err != nil {
			return c.err
		}
		amounts := fmt.Sprintf("%6.0f %6.0f", (now.out-m.before.out)/(1<<20), (now.in-m.before.in)/(1<<20))
		if i > 0 {
			what, amounts = "", strings.Repeat(" ", 13)
		}
		contents := "new"
		if c.runs > 1 {
			contents = m.p.paint(green, "as it was left")
		}
		if !c.intact {
			contents, m.lost = m.p.paint(red, "LOST"), true
		}
		m.p.line("%-34s %-6s %-10s %s  %s", what, c.name, c.start, amounts, contents)
	}
	m.before = now
	return nil
}
