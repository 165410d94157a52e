package explain

import (
	"fmt"
	"strings"
	"time"
)

// Sentence is one step of a trace, and when it ended.
type Sentence struct {
	At   time.Time `json:"at,omitzero"`
	Text string    `json:"text"`
}

// Describe puts a trace into sentences from acceptance to record, in the order of time.
func Describe(a *Trace) []Sentence {
	t := &describer{}
	t.arrival(a)
	if a.Refused != "" {
		t.add(a.Answered, "Did not run: %s", a.Refused)
		t.ending(a)
		return t.all
	}
	t.waiting(a)
	t.start(a)
	t.memory(a)
	t.run(a)
	t.ending(a)
	return t.all
}

type describer struct{ all []Sentence }

func (t *describer) add(at time.Time, format string, args ...any) {
	t.all = append(t.all, Sentence{at, fmt.Sprintf(format, args...)})
}

func (t *describer) arrival(a *Trace) {
	if a.FromRecord {
		if !a.Sent.IsZero() {
			t.add(a.Sent, "Sent by the controller.")
		}
		return
	}
	on := ""
	if d := span(a.Sent, a.Accepted); d > 0 {
		on = fmt.Sprintf(", %s after the controller made it", Short(d))
	}
	t.add(a.Accepted, "Accepted%s.", on)
	if d := span(a.Accepted, a.Queued); d >= 5*time.Millisecond {
		t.add(a.Queued, "Its action was read from the database in %s.", Short(d))
	}
}

func (t *describer) waiting(a *Trace) {
	wait := a.Wait()
	if a.Queued.IsZero() || a.Granted.IsZero() {
		return
	}
	if wait < time.Millisecond {
		t.add(a.Granted, "Did not wait in a queue.")
		return
	}
	text := "Waited " + Short(wait)
	if a.GPU == nil {
		t.add(a.Granted, "%s for a container.", text)
		return
	}
	t.add(a.Granted, "%s%s.", text, a.GPU.because())
}

// because is the reason why a function waited: the rest of a sentence.
func (g *GPU) because() string {
	var parts []string
	if g.Own > 0 {
		parts = append(parts, fmt.Sprintf("behind %s of its own function", many(g.Own, "call")))
	}
	switch {
	case g.PassedBy > 0 && g.PassedBy < g.Passed:
		parts = append(parts, fmt.Sprintf("behind %d of %s and %d of other functions", g.PassedBy, g.Behind, g.Passed-g.PassedBy))
	case g.PassedBy > 0:
		parts = append(parts, fmt.Sprintf("behind %d of %s", g.PassedBy, g.Behind))
	case g.Passed > 0:
		parts = append(parts, fmt.Sprintf("behind %s of other functions", many(g.Passed, "call")))
	}
	text := ""
	if len(parts) > 0 {
		text = " " + strings.Join(parts, " and ")
	}
	return text + g.reason()
}

// The scheduler's names of why a flow waits.
const (
	waitThrottled = "throttled"
	waitNoToken   = "no token"
	waitNoFit     = "does not fit"
	waitNoDevice  = "no device"
	waitContainer = "waits for its container"
	waitBackoff   = "backs off"
	waitBehind    = "behind"
)

func (g *GPU) reason() string {
	switch g.WaitReason {
	case waitThrottled:
		whose := "its lead"
		if g.Level == "namespace" {
			whose = "its namespace's lead"
		}
		return fmt.Sprintf(", because %s over the others was %s where %s is allowed", whose, Short(g.Lead), Short(g.Overrun))
	case waitNoToken:
		return ", because every device had as many runs as it may"
	case waitNoFit:
		return ", because neither device memory nor a container could be had"
	case waitNoDevice:
		return ", because no device could be used"
	case waitContainer:
		return ", because its own container was busy, and waiting was sooner than a cold start"
	case waitBackoff:
		return ", because its function had failed again and again and paused"
	case waitBehind:
		return ", because others came first in the policy's order"
	}
	return ""
}

func (t *describer) start(a *Trace) {
	where := ""
	if a.GPU != nil && a.GPU.Device != "" {
		where = " on " + DeviceName(a.GPU.Device, a.GPU.Simulated)
	}
	for range min(a.Again, 1) {
		t.add(a.Granted, "%s gone when it came; it went to another.", was(a.Again, "container was", "containers were"))
	}
	at := a.Granted
	if !a.Launched.IsZero() {
		at = a.Launched
	}
	switch a.Start {
	case "gpu-warm":
		t.add(at, "Started GPU-warm%s: the container was there and all of its memory on the device.", where)
	case "host-warm":
		t.add(at, "Started host-warm%s: the container was there, its memory not on the device, or not all of it.", where)
	case "busy-cold":
		t.add(at, "Started cold%s: the function has containers, but all of them were busy.", where)
	case "cold":
		t.add(at, "Started cold%s: there was no container of the function.", where)
	case "warmed":
		t.add(at, "Started warm: a container of the function was idle.")
	case "prewarmed":
		t.add(at, "Started prewarmed: a container of its kind was waiting for any function.")
	}
	if a.Create > 0 {
		t.add(a.InitStart, "Its container was created in %s.", Short(a.Create))
	}
	if d := span(a.InitStart, a.InitEnd); d > 0 {
		t.add(a.InitEnd, "The function was initialised in %s.", Short(d))
	}
}

func (t *describer) memory(a *Trace) {
	g := a.GPU
	if g == nil {
		return
	}
	if g.Moved >= 100*time.Microsecond { // less is the answer to an order that had nothing to move
		t.add(a.RunStart, "Its memory was brought to the device in %s.", Short(g.Moved))
	}
}

func (t *describer) run(a *Trace) {
	if a.RunStart.IsZero() {
		return
	}
	beside := ""
	if a.GPU != nil {
		if !a.GPU.Alone {
			beside = " alone on the device"
		}
		if a.GPU.Beside > 0 {
			beside = " beside " + a.GPU.company()
		}
	}
	limit := ""
	if a.TimedOut {
		limit = ", which is its time limit"
	}
	memory := ""
	if a.GPU != nil && a.GPU.Memory > 0 {
		memory = fmt.Sprintf("; its container held %s of device memory", Bytes(a.GPU.Memory))
	}
	t.add(a.RunEnd, "Ran %s%s%s%s.", Short(span(a.RunStart, a.RunEnd)), beside, limit, memory)
}

// company states what else ran on the device.
func (g *GPU) company() string {
	switch others := g.Beside - g.CompanyRuns; {
	case g.CompanyRuns == 0:
		return many(g.Beside, "other run")
	case others > 0:
		return fmt.Sprintf("%s of %s and %s", many(g.CompanyRuns, "run"), g.Company, many(others, "other run"))
	}
	return fmt.Sprintf("%s of %s", many(g.CompanyRuns, "run"), g.Company)
}

// outcomes are OpenWhisk's names of a response's status codes.
var outcomes = [...]string{"success", "an application error", "a developer error", "an error of the system"}

func (t *describer) ending(a *Trace) {
	if a.Answered.IsZero() {
		return
	}
	outcome := outcomes[a.Status&3]
	all := ""
	if d := a.Latency(); d > 0 {
		all = fmt.Sprintf(", %s after it was sent", Short(d))
	}
	t.add(a.Answered, "Answered with %s%s.", outcome, all)
	if a.Logs > 0 {
		t.add(a.Answered, "Its log was read in %s.", Short(a.Logs))
	}
	d := span(a.Answered, a.Completed)
	switch {
	case a.FromRecord:
	case a.Completed.IsZero():
		t.add(time.Time{}, "Its record is not written yet.")
	case a.Recorded && a.Batch == NoBatch:
		t.add(a.Completed, "Its acks were safe %s later; the store refused its record.", Short(d))
	case a.Recorded:
		t.add(a.Completed, "Its record%s and its acks were safe %s later.", a.batch(), Short(d))
	default:
		t.add(a.Completed, "Its acks were safe %s later; no record is kept of it.", Short(d))
	}
}

// batch states how a record was written.
func (a *Trace) batch() string {
	switch a.Batch {
	case 0:
		return ""
	case 1:
		return ", written alone,"
	}
	return fmt.Sprintf(", written in a batch of %d,", a.Batch)
}

// DeviceName is a device's name, with whether it is simulated.
func DeviceName(name string, simulated bool) string {
	if simulated && !strings.Contains(name, "simulated") {
		return name + " (simulated)"
	}
	return name
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func was(n int, one, more string) string {
	if n == 1 {
		return "A " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// Short writes a duration with about three digits.
func Short(d time.Duration) string {
	switch {
	case d >= 10*time.Minute:
		return d.Round(time.Minute).String()
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond)/time.Millisecond)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d >= time.Microsecond:
		return fmt.Sprintf("%d µs", d/time.Microsecond)
	}
	return "0 s"
}

// Bytes writes an amount of memory with about three digits; units are powers
// of 1024, as OpenWhisk has them.
func Bytes(n int64) string {
	f := float64(n)
	for _, unit := range []string{"B", "KB", "MB", "GB"} {
		if f < 1024 || unit == "GB" {
			if f < 10 && unit != "B" {
				return fmt.Sprintf("%.1f %s", f, unit)
			}
			return fmt.Sprintf("%.0f %s", f, unit)
		}
		f /= 1024
	}
	return ""
}
