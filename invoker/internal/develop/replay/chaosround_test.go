package replay

import (
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// plan is the seed's choice for one round.
type plan struct {
	fault   fault
	end     string
	batch   int           // activations that are sent
	begun   int           // activations among them that have begun when the fault comes
	acks    int           // that are awaited before the end, where nothing fails
	moment  time.Duration // that passes before the end
	still   time.Duration // how long an invoker stands still
	mended  bool          // the fault is over before the next invoker starts
	overlap time.Duration // for which it lasts beside the next, otherwise
	again   int           // how often a starting invoker is killed
}

// fault is a failure that lasts for a while.
type fault struct {
	name  string
	begin func() (over func())
}

const (
	killed        = "killed"
	killedAtStart = "killed, and those after it at their starts"
	asked         = "asked to stop"
	stood         = "stood still, then killed"
	stoodAlive    = "stood still and went on"
	lives         = "lived on"
)

// ways are the ends, as often as they are to come.
var ways = []string{killed, killed, killed, killed, killedAtStart, asked, asked, stood, stoodAlive, lives}

// faults returns the possible faults of this fixture.
func (c *chaos) faults() []fault {
	database := func(do harness.Fault) func() func() {
		return func() func() {
			c.database.Strike("", harness.Always, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				c.tally.add("requests that met a failing database", 1)
				do(w, r, next)
			})
			return c.database.Clear
		}
	}
	none := fault{"nothing else", func() func() { return func() {} }}
	all := []fault{
		none,
		{"the broker is killed", c.killKafka},
		{"the database answers 500", database(harness.AnswerStatus(http.StatusInternalServerError))},
		{"the database is slow", database(slowly)},
		{"the database is gone", database(harness.HangUp)},
	}
	if c.disk != nil {
		all = append(all, fault{"the disk is full", func() func() {
			check.NoError(c.T, c.disk.fill())
			return func() {
				check.NoError(c.T, c.disk.free())
			}
		}})
	}
	if c.clock != nil {
		step := func(by time.Duration) func() func() {
			return func() func() {
				c.clock.step(by)
				return func() { c.clock.step(0) }
			}
		}
		all = append(all,
			fault{"the clock is stepped ahead by a day", step(25 * time.Hour)},
			fault{"the clock is stepped back by a day", step(-25 * time.Hour)})
	}
	return all
}

// draw makes the plan of a round. Faults take turns, so that a short run meets many of
// them.
func (c *chaos) draw(round int, end string) plan {
	r, all := c.r, c.faults()
	p := plan{
		fault: all[round%len(all)], end: end,
		batch: 5 + r.IntN(26), moment: time.Duration(r.IntN(2500)) * time.Millisecond,
		still: time.Duration(1+r.IntN(1000)) * time.Millisecond, mended: r.IntN(2) == 0,
		overlap: time.Duration(r.IntN(3000)) * time.Millisecond,
	}
	p.again = 1 + r.IntN(4)
	p.begun, p.acks = r.IntN(p.batch), r.IntN(p.batch)
	if c.long {
		p.still = 20 * time.Second
		if r.IntN(3) == 0 {
			p.fault = all[0]
		}
	}
	return p
}

// round lets one invoker meet a fault and an end.
func (c *chaos) round(p plan) {
	c.T.Helper()
	c.Gate.Drop()
	batch := c.send(p.batch)
	c.tally.add("fault: "+p.fault.name, 1)
	c.Gate.AwaitUntil(p.begun, time.After(p.moment))
	c.failing = p.fault.begin()
	if p.fault.name == "nothing else" {
		c.settled(batch[:p.acks])
	} else {
		<-time.After(p.moment)
	}
	c.meet(p)
}

// meet ends the invoker as planned, and starts the next where there is to be
// one.
func (c *chaos) meet(p plan) {
	c.T.Helper()
	c.tally.add("end: "+p.end, 1)
	switch p.end {
	case lives:
		c.well()
		return
	case stoodAlive:
		c.standStill(p)
		check.NoError(c.T, c.p.Cmd.Process.Signal(syscall.SIGCONT))
		c.well()
		return
	case stood:
		c.standStill(p)
		c.p.Kill()
	case killed, killedAtStart:
		c.p.Kill()
	case asked:
		// The current fault may prevent the invoker from sending everything.
		if err := c.p.StopWithin(limit, os.Interrupt); err != nil && p.fault.name == "nothing else" {
			c.T.Error(err)
		}
	}
	c.tally.add(ends, 1)
	if p.mended {
		c.well()
	}
	c.begin()
	if p.end == killedAtStart {
		for range p.again {
			<-time.After(p.overlap / 4)
			c.p.Kill()
			c.tally.add(ends, 1)
			c.begin()
		}
	}
	if !p.mended {
		<-time.After(p.overlap)
	}
	c.well()
	c.alive()
}

// standStill stops the invoker for a while, as a hypervisor would.
func (c *chaos) standStill(p plan) {
	c.T.Helper()
	check.NoError(c.T, c.p.Cmd.Process.Signal(syscall.SIGSTOP))
	<-time.After(p.still)
}
