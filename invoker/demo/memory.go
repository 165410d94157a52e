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
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
)

// ErrMemory says that a function did not find its device memory as it had left
// it.
var ErrMemory = errors.New("device memory was lost")

// The device of this act holds the small ones or the large one, not both.
const (
	actMemory = 80 // MB
	// The paper's own policy starts a second container where the first is in use.
	// The default one may find that waiting is shorter.
	actPolicy = "mqfq-sticky"
	smallMB   = 16
	largeMB   = 66
)

// act shows, one call after the other on an installation of its own, how calls of
// GPU functions start and where their memory is meanwhile.
type act struct {
	p      printer
	o      Options
	client *whisk.Client
	db     *couchdb.Client
	before traffic
	lost   bool
}

// showMemory is the act.
func showMemory(ctx context.Context, o Options, p printer) error {
	o.Standalone.Policy = actPolicy
	o.Standalone.GPUMemory = actMemory * activation.MB
	return install(ctx, o, p, false, func(s *standalone.Standalone) error {
		client, done, err := dial(s)
		if err != nil {
			return err
		}
		defer done()
		a := &act{p: p, o: o, client: client, db: couchdb.New(s.Info().Database)}
		defer a.db.Close()
		for _, f := range []Function{keeping("small", smallMB), keeping("large", largeMB), keeping("tiny", 1)} {
			if err := deploy(client, f); err != nil {
				return err
			}
		}
		return a.play(ctx)
	})
}

func (a *act) play(ctx context.Context) error {
	a.p.say("%s", a.p.paint(bold, fmt.Sprintf("%-34s %-6s %-10s %6s %6s  %s", fmt.Sprintf("memory on a simulated GPU of %d MB", actMemory), "call", "start", "out MB", "in MB", "contents")))
	for _, s := range []struct {
		what string
		do   func(ctx context.Context, what string) error
	}{
		{"the first call loads it", a.once("small")},
		{"it is still there", a.once("small")},
		{"two calls at once, one container", a.both},
		{"another one needs all the room", a.once("large")},
		{"and it comes back from the host", a.once("small")},
		{"out again", a.once("large")},
		{"while it waits behind two others", a.ahead},
	} {
		if err := s.do(ctx, s.what); err != nil {
			return err
		}
	}
	a.p.say("")
	if a.lost {
		return ErrMemory
	}
	return nil
}

// once makes one call.
func (a *act) once(name string) func(context.Context, string) error {
	return func(ctx context.Context, what string) error { return a.tell(ctx, what, a.call(ctx, name, 0)) }
}

// both makes a call beside one that runs. Where they miss each other it tries again.
func (a *act) both(ctx context.Context, what string) error {
	for busy := leastBusy; ; busy *= 2 {
		first, err := a.occupy(ctx, "small", 1, busy)
		if err != nil {
			return err
		}
		second := a.call(ctx, "small", 0)
		if c := <-first; second.start == busyCold || busy >= mostBusy || errors.Join(c.err, second.err) != nil {
			return a.tell(ctx, what, c, second)
		}
	}
}

// busyCold is the start of who finds all containers of its function in use.
const busyCold = "busy-cold"

// How long calls run that others are to meet, in milliseconds. On a machine that
// has much else to do they miss each other, and are made again for twice the time.
const leastBusy, mostBusy = 1500, 16 * leastBusy

// occupy makes calls that take their time, and waits until they run.
func (a *act) occupy(ctx context.Context, name string, n, busy int) (answers chan called, err error) {
	answers = make(chan called, n)
	for range n {
		go func() { answers <- a.call(ctx, name, busy) }()
	}
	return answers, a.ask(ctx, func() (bool, error) {
		now, err := running(ctx, a.o.Admin())
		return now == float64(n) || len(answers) == n, err
	})
}

// tell prints a line for each call, with what was moved since the last one.
func (a *act) tell(ctx context.Context, what string, all ...called) error {
	now, err := measure(ctx, a.o.Admin())
	if err != nil {
		return err
	}
	for i, c := range all {
		if c.err != nil {
			return c.err
		}
		moved := fmt.Sprintf("%6.0f %6.0f", (now.out-a.before.out)/(1<<20), (now.in-a.before.in)/(1<<20))
		if i > 0 {
			what, moved = "", strings.Repeat(" ", 13)
		}
		contents := "new"
		if c.Runs > 1 {
			contents = a.p.paint(green, "as it was left")
		}
		if !c.Intact {
			contents, a.lost = a.p.paint(red, "LOST"), true
		}
		a.p.say("%-34s %-6s %-10s %s  %s", what, c.name, c.start, moved, contents)
	}
	a.before = now
	return nil
}

// ahead keeps both places of the device busy, and shows that the memory of who is
// next comes in meanwhile. Where it came too late its room is taken again.
func (a *act) ahead(ctx context.Context, what string) error {
	for busy := leastBusy; ; busy *= 2 {
		c, came, err := a.behind(ctx, busy)
		if err != nil {
			return err
		}
		if came == 0 && busy < mostBusy {
			if c := a.call(ctx, "large", 0); c.err != nil {
				return c.err
			}
			if a.before, err = measure(ctx, a.o.Admin()); err != nil {
				return err
			}
			continue
		}
		if err := a.tell(ctx, what, c); err != nil {
			return err
		}
		if came > 0 {
			a.p.say("  %.0f MB came in before its turn (prefetch), while the others ran", came/(1<<20))
		} else {
			a.p.say("  its memory did not come before its turn")
		}
		return nil
	}
}

// behind makes a call behind two others, and tells how many bytes of its memory
// came before its turn.
func (a *act) behind(ctx context.Context, busy int) (c called, came float64, err error) {
	others, err := a.occupy(ctx, "tiny", 2, busy)
	if err != nil {
		return c, 0, err
	}
	next := make(chan called, 1)
	go func() { next <- a.call(ctx, "small", 0) }()
	came, err = a.brought(ctx, next)
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

// brought gives the bytes that came in before a call that waits was answered.
func (a *act) brought(ctx context.Context, next chan called) (bytes float64, err error) {
	err = a.ask(ctx, func() (bool, error) {
		now, err := measure(ctx, a.o.Admin())
		if len(next) > 0 {
			return true, err // too late to be ahead
		}
		bytes = now.in - a.before.in
		return bytes >= smallMB<<20, err
	})
	return bytes, err
}

// ask asks until the answer is yes, with pauses.
func (a *act) ask(ctx context.Context, question func() (bool, error)) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if yes, err := question(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// called is what became of a call.
type called struct {
	name, start string
	err         error
	Runs        int
	Intact      bool
}

// call makes a blocking call and reads its record.
func (a *act) call(ctx context.Context, name string, ms int) (c called) {
	c.name = name
	answer, _, err := a.client.Actions.Invoke(name, map[string]any{"ms": ms}, true, false) //nolint:bodyclose // the client has read it to its end
	if c.err = err; err != nil {
		return c
	}
	fields, _ := answer.(map[string]any)
	id, _ := fields["activationId"].(string)
	c.err = a.ask(ctx, func() (bool, error) {
		doc, err := a.db.Get(ctx, a.db.Names().Activations, standalone.Guest().Name+"/"+id)
		if errors.Is(err, couchdb.ErrNotFound) {
			return false, nil // it is written behind the answer
		}
		if err != nil {
			return false, err
		}
		return true, c.read(doc)
	})
	return c
}

// read takes in the record of a call.
func (c *called) read(doc []byte) error {
	r, err := activation.DecodeRecord(doc)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(r.Response.Result, c); err != nil {
		return fmt.Errorf("%s answered %s: %w", c.name, r.Response.Result, err)
	}
	raw, _ := r.Annotations.Get("gpu")
	g, err := decodeGPU(raw)
	c.start = g.Start
	return err
}
