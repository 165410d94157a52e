package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sentence describes one step of a trace, and the time at which the step ended.
type Sentence struct {
	At   time.Time `json:"at,omitzero"`
	Text string    `json:"text"`
}

// Explanation is a trace with its description.
type Explanation struct {
	Trace     *Trace     `json:"trace"`
	Sentences []Sentence `json:"sentences"`
}

// Explain adds the description to a trace.
func Explain(t *Trace) Explanation { return Explanation{t, Describe(t)} }

// Describe describes a trace in sentences, from acceptance to record, in the order of time.
func Describe(a *Trace) []Sentence {
	t := &describer{}
	t.arrival(a)
	if a.Refused != "" {
		t.add(a.Answered, "Did not run: %s", a.Refused)
		t.ending(a)
		return t.sentences
	}
	t.waiting(a)
	t.start(a)
	t.run(a)
	t.ending(a)
	return t.sentences
}

type describer struct{ sentences []Sentence }

func (t *describer) add(at time.Time, format string, args ...any) {
	t.sentences = append(t.sentences, Sentence{at, fmt.Sprintf(format, args...)})
}

func (t *describer) arrival(a *Trace) {
	if a.FromRecord {
		if !a.Sent.IsZero() {
			t.add(a.Sent, "Sent by the controller.")
		}
		return
	}
	on := ""
	if d := duration(a.Sent, a.Accepted); d > 0 {
		on = fmt.Sprintf(", %s after the controller made it", Short(d))
	}
	t.add(a.Accepted, "Accepted%s.", on)
	if d := duration(a.Accepted, a.Queued); d >= 5*time.Millisecond {
		t.add(a.Queued, "Its action was read from the database in %s.", Short(d))
	}
}

func (t *describer) waiting(a *Trace) {
	switch wait := a.Wait(); {
	case a.Queued.IsZero() || a.Granted.IsZero():
	case wait < time.Millisecond:
		t.add(a.Granted, "Did not wait in a queue.")
	case a.GPU == nil:
		t.add(a.Granted, "Waited %s for a container.", Short(wait))
	default:
		t.add(a.Granted, "Waited %s%s%s.", Short(wait), a.GPU.behind(), a.GPU.reason())
	}
}

// behind lists the runs that started while the activation waited.
func (g *GPU) behind() string {
	var parts []string
	if g.Own > 0 {
		parts = append(parts, fmt.Sprintf("behind %s of its own function", plural(g.Own, "call")))
	}
	switch {
	case g.PassedBy > 0 && g.PassedBy < g.Passed:
		parts = append(parts, fmt.Sprintf("behind %d of %s and %d of other functions", g.PassedBy, FunctionName(g.Behind), g.Passed-g.PassedBy))
	case g.PassedBy > 0:
		parts = append(parts, fmt.Sprintf("behind %d of %s", g.PassedBy, FunctionName(g.Behind)))
	case g.Passed > 0:
		parts = append(parts, fmt.Sprintf("behind %s of other functions", plural(g.Passed, "call")))
	}
	if len(parts) == 0 {
		return ""
	}
	return " " + strings.Join(parts, " and ")
}

// reasons explains the scheduler's reasons for which a flow waits.
var reasons = map[string]string{
	"no token":                "every device had as many runs as it takes at once",
	"does not fit":            "neither device memory nor a container was free",
	"no device":               "no device could be used",
	"waits for its container": "its own container was busy, and waiting was sooner than a cold start",
	"backs off":               "its function had failed several times in a row and was paused",
	"behind":                  "the policy put other functions first",
}

func (g *GPU) reason() string {
	reason := reasons[g.WaitReason]
	if g.WaitReason == "throttled" {
		whose := "its lead"
		if g.Level == "namespace" {
			whose = "its namespace's lead"
		}
		reason = fmt.Sprintf("%s over the others was %s where %s is allowed", whose, Short(g.Lead), Short(g.Overrun))
	}
	if reason == "" {
		return ""
	}
	return ", because " + reason
}

// starts names the kinds of starts and explains them.
var starts = map[string][2]string{
	"gpu-warm":  {"GPU-warm", "the container was there and all of its memory on the device"},
	"host-warm": {"host-warm", "the container was there, but not all of its memory on the device"},
	"busy-cold": {"cold", "the function has containers, but all of them were busy"},
	"cold":      {"cold", "there was no container of the function"},
	"warmed":    {"warm", "a container of the function was idle"},
	"prewarmed": {"prewarmed", "a container of its kind was waiting for any function"},
}

func (t *describer) start(a *Trace) {
	where := ""
	if a.GPU != nil && a.GPU.Device != "" {
		where = " on " + DeviceName(a.GPU.Device, a.GPU.Simulated)
	}
	switch {
	case a.Again == 1:
		t.add(a.Granted, "Its container had ended when it came; it went to another container.")
	case a.Again > 1:
		t.add(a.Granted, "%d containers had ended when it came; it went to another container.", a.Again)
	}
	at := a.Launched
	if at.IsZero() {
		at = a.Granted
	}
	if s, known := starts[a.Start]; known {
		t.add(at, "Started %s%s: %s.", s[0], where, s[1])
	}
	if a.Create > 0 {
		t.add(a.InitStart, "Its container was created in %s.", Short(a.Create))
	}
	if d := duration(a.InitStart, a.InitEnd); d > 0 {
		t.add(a.InitEnd, "The function was initialised in %s.", Short(d))
	}
	if a.GPU != nil && a.GPU.Moved >= 100*time.Microsecond { // a shorter time means that nothing had to be moved
		t.add(a.RunStart, "Its memory was brought to the device in %s.", Short(a.GPU.Moved))
	}
}

func (t *describer) run(a *Trace) {
	if a.RunStart.IsZero() {
		return
	}
	beside, limit, memory := "", "", ""
	if a.TimedOut {
		limit = ", which is its time limit"
	}
	if g := a.GPU; g != nil {
		switch {
		case g.Beside > 0:
			beside = " beside " + g.company()
		case !g.Alone:
			beside = " alone on the device"
		}
		if g.Memory > 0 {
			memory = fmt.Sprintf("; its container held %s of device memory", Bytes(g.Memory))
		}
	}
	t.add(a.RunEnd, "Ran %s%s%s%s.", Short(duration(a.RunStart, a.RunEnd)), beside, limit, memory)
}

// company lists the other runs on the device.
func (g *GPU) company() string {
	switch others := g.Beside - g.CompanyRuns; {
	case g.CompanyRuns == 0:
		return plural(g.Beside, "other run")
	case others > 0:
		return fmt.Sprintf("%s of %s and %s", plural(g.CompanyRuns, "run"), FunctionName(g.Company), plural(others, "other run"))
	}
	return fmt.Sprintf("%s of %s", plural(g.CompanyRuns, "run"), FunctionName(g.Company))
}

// outcomes describes OpenWhisk's status codes of responses.
var outcomes = [...]string{"success", "an application error", "a developer error", "an error of the system"}

func (t *describer) ending(a *Trace) {
	if a.Answered.IsZero() {
		return
	}
	after := ""
	if d := a.Latency(); d > 0 {
		after = fmt.Sprintf(", %s after it was sent", Short(d))
	}
	t.add(a.Answered, "Answered with %s%s.", a.Outcome(), after)
	if a.Logs > 0 {
		t.add(a.Answered, "Its log was read in %s.", Short(a.Logs))
	}
	d := duration(a.Answered, a.Completed)
	switch {
	case a.FromRecord:
	case a.Completed.IsZero():
		t.add(time.Time{}, "Its record is not written yet.")
	case a.Recorded && a.Batch == NoBatch:
		t.add(a.Completed, "Its acks were safe %s later; the store refused its record.", Short(d))
	case a.Recorded && a.Batch == 0:
		t.add(a.Completed, "Its record and its acks were safe %s later.", Short(d))
	case a.Recorded && a.Batch == 1:
		t.add(a.Completed, "Its record, written alone, and its acks were safe %s later.", Short(d))
	case a.Recorded:
		t.add(a.Completed, "Its record, written in a batch of %d, and its acks were safe %s later.", a.Batch, Short(d))
	default:
		t.add(a.Completed, "Its acks were safe %s later; no record of it is kept.", Short(d))
	}
}

// DeviceName turns a device's name, such as "0 (NVIDIA A100)" or "1 (gpu, simulated)",
// into "GPU 0 (NVIDIA A100)" or "GPU 1 (simulated)". A device whose model is not known is
// called gpu, which says nothing.
func DeviceName(name string, simulated bool) string {
	index, model, _ := strings.Cut(name, " (")
	model, marked := strings.CutSuffix(strings.TrimSuffix(model, ")"), ", simulated")
	notes := slices.DeleteFunc([]string{model, "simulated"}, func(note string) bool {
		return note == "" || note == "gpu" || note == "simulated" && !simulated && !marked
	})
	if len(notes) == 0 {
		return "GPU " + index
	}
	return "GPU " + index + " (" + strings.Join(notes, ", ") + ")"
}

// FunctionName shortens namespace/owner/action to namespace/action, as OpenWhisk writes
// it, where the namespace owns the action.
func FunctionName(name string) string {
	namespace, action, _ := strings.Cut(name, "/")
	if owner, _, found := strings.Cut(action, "/"); found && owner == namespace {
		return action
	}
	return name
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Short formats a duration with about three digits.
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

// Bytes formats an amount of memory with about three digits. The units are powers of
// 1024, as in OpenWhisk.
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
