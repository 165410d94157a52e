package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// ErrMemory says that a function did not find its device memory as it had left
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
	p       printer
	admin   func() string
	client  *whisk.Client
	records *catalog.Catalog
	before  traffic // as of the last line
	lost    bool
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
		db, err := couchdb.New(s.Info().Database)
		if err != nil {
			return err
		}
		defer db.Close()
		for _, f := range []Function{keeper("small", smallMB), keeper("large", largeMB), keeper("tiny", 1)} {
			if err := deploy(client, f); err != nil {
				return err
			}
		}
		m := &memoryTour{p: p, admin: o.Admin, client: client, records: catalog.New(db, nil)}
		return m.run(ctx)
	})
}

func (m *memoryTour) run(ctx context.Context) error {
	title := fmt.Sprintf("memory on a simulated GPU of %d MB", memoryMB)
	m.p.line("%s", m.p.paint(bold, fmt.Sprintf("%-34s %-6s %-10s %6s %6s  %s", title, "call", "start", "out MB", "in MB", "contents")))
	for _, step := range []struct {
		what string
		do   func(ctx context.Context, what string) error
	}{
		{"the first call loads it", m.once("small")},
		{"it is still there", m.once("small")},
		{"two calls at once, one container", m.both},
		{"another one needs all the room", m.once("large")},
		{"and it comes back from the host", m.once("small")},
		{"out again", m.once("large")},
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

// once makes one call.
func (m *memoryTour) once(name string) func(context.Context, string) error {
	return func(ctx context.Context, what string) error { return m.show(ctx, what, m.call(ctx, name, 0)) }
}

// How long calls run that others are to meet, in milliseconds. On a machine that
// has much else to do they miss each other, and are made again for twice the time.
const leastBusy, mostBusy = 1500, 16 * 1500

// both makes a call beside one that runs.
func (m *memoryTour) both(ctx context.Context, what string) error {
	for busy := leastBusy; ; busy *= 2 {
		first, err := m.occupy(ctx, "small", 1, busy)
		if err != nil {
			return err
		}
		second := m.call(ctx, "small", 0)
		if c := <-first; second.start == "busy-cold" || busy >= mostBusy || errors.Join(c.err, second.err) != nil {
			return m.show(ctx, what, c, second)
		}
	}
}

// prefetched keeps both slots of the device busy, and shows that the memory of
// the next call comes in meanwhile. Where it came too late, the large function
// takes its memory again.
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
		if c := m.call(ctx, "large", 0); c.err != nil {
			return c.err
		}
		if m.before, err = movedBytes(ctx, m.admin()); err != nil {
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
	go func() { next <- m.call(ctx, "small", 0) }()
	err = poll(ctx, func() (bool, error) {
		now, err := movedBytes(ctx, m.admin())
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
		go func() { answers <- m.call(ctx, name, busy) }()
	}
	return answers, poll(ctx, func() (bool, error) {
		now, err := runsInFlight(ctx, m.admin())
		return now == n || len(answers) == n, err
	})
}

// poll calls done until it returns true or an error, with pauses.
func poll(ctx context.Context, done func() (bool, error)) error {
	for {
		if yes, err := done(); yes || err != nil {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// memoryCall is what became of a call. Its exported fields are the answer.
type memoryCall struct {
	name, start string
	err         error
	Runs        int
	Intact      bool
}

// call makes a blocking call and reads its record, which is written behind the
// answer.
func (m *memoryTour) call(ctx context.Context, name string, ms int) memoryCall {
	c := memoryCall{name: name}
	answer, _, err := m.client.Actions.Invoke(name, map[string]any{"ms": ms}, true, false) //nolint:bodyclose // the client has read it to its end
	if c.err = err; err != nil {
		return c
	}
	fields, _ := answer.(map[string]any)
	id, _ := fields["activationId"].(string)
	c.err = poll(ctx, func() (bool, error) {
		r, err := m.records.Record(ctx, standalone.Guest().Name, activation.ID(id))
		if errors.Is(err, couchdb.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		run, _ := gpuRunOf(r)
		c.start = run.Start
		if err := json.Unmarshal(r.Response.Result, &c); err != nil {
			return false, fmt.Errorf("%s answered %s: %w", name, r.Response.Result, err)
		}
		return true, nil
	})
	return c
}

// show prints a line for each call, with what was moved since the last one.
func (m *memoryTour) show(ctx context.Context, what string, calls ...memoryCall) error {
	now, err := movedBytes(ctx, m.admin())
	if err != nil {
		return err
	}
	for i, c := range calls {
		if c.err != nil {
			return c.err
		}
		moved := fmt.Sprintf("%6.0f %6.0f", (now.out-m.before.out)/(1<<20), (now.in-m.before.in)/(1<<20))
		if i > 0 {
			what, moved = "", strings.Repeat(" ", 13)
		}
		contents := "new"
		if c.Runs > 1 {
			contents = m.p.paint(green, "as it was left")
		}
		if !c.Intact {
			contents, m.lost = m.p.paint(red, "LOST"), true
		}
		m.p.line("%-34s %-6s %-10s %s  %s", what, c.name, c.start, moved, contents)
	}
	m.before = now
	return nil
}
