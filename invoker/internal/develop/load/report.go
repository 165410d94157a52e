package load

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Report holds the figures of a load. Scripts rely on its JSON form.
type Report struct {
	APIHost     string    `json:"apihost"`
	Load        string    `json:"load"` // described
	Begin       time.Time `json:"begin"`
	Seconds     float64   `json:"seconds"`
	Sent        int       `json:"sent"`
	Ran         int       `json:"ran"`    // to an end that was seen
	Failed      int       `json:"failed"` // of all, whatever the reason
	Unsent      int       `json:"unsent"`
	Interrupted bool      `json:"interrupted"`
	Throughput  float64   `json:"throughput"` // successes a second

	// Late calls were sent more than 10 ms after their time.
	Late   int     `json:"late"`
	Latest float64 `json:"latestMs"`

	All      Group     `json:"all"`
	Starts   []Group   `json:"starts"`
	Actions  []Group   `json:"actions"`
	Failures []Failure `json:"failures"`
}

// Group is the calls that have something in common. Latencies are those of
// calls that ran, in milliseconds from the time at which each was to be sent.
type Group struct {
	Name   string  `json:"name"`
	Calls  int     `json:"calls"`
	Failed int     `json:"failed"`
	Mean   float64 `json:"meanMs"`
	P50    float64 `json:"p50Ms"`
	P95    float64 `json:"p95Ms"`
	P99    float64 `json:"p99Ms"`
	Max    float64 `json:"maxMs"`

	latencies []time.Duration
}

// Failure is a kind of failure.
type Failure struct {
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"`
}

// lateness is the delay that the timers of a busy machine may have.
const lateness = 10 * time.Millisecond

// Summarise counts.
func Summarise(r *Result, actions []string) Report {
	s := Report{Begin: r.Begin, Seconds: r.Took.Seconds(), Interrupted: r.Interrupted, Failures: []Failure{}}
	all, byStart, byAction := groups{}, groups{}, groups{}
	all.of("all") // also without calls
	failures := map[string]*Failure{}
	for _, c := range r.Calls {
		all.of("all").add(c)
		byAction.of(actions[c.Action]).add(c)
		if c.Ran {
			s.Ran++
			byStart.of(cmp.Or(c.Start, Unknown)).add(c)
		}
		if c.Failure == failureUnsent {
			s.Unsent++
		} else {
			s.Sent++
		}
		if c.Failure != "" {
			if failures[c.Failure] == nil {
				failures[c.Failure] = &Failure{Kind: c.Failure, Example: c.Detail}
			}
			failures[c.Failure].Count++
		}
		if c.Late > lateness {
			s.Late++
		}
		s.Latest = max(s.Latest, ms(c.Late))
	}
	s.All, s.Starts, s.Actions = all.list()[0], byStart.list(), byAction.list()
	s.Failed = s.All.Failed
	if r.Took > 0 {
		s.Throughput = float64(s.All.Calls-s.Failed) / r.Took.Seconds()
	}
	for _, f := range failures {
		s.Failures = append(s.Failures, *f)
	}
	slices.SortFunc(s.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
	return s
}

func (g *Group) add(c Call) {
	g.Calls++
	if c.Failure != "" {
		g.Failed++
	}
	if c.Ran {
		g.latencies = append(g.latencies, c.Latency)
	}
}

// settle makes the mean and the percentiles, which are exact.
func (g *Group) settle() {
	if len(g.latencies) == 0 {
		return
	}
	slices.Sort(g.latencies)
	sum := time.Duration(0)
	for _, l := range g.latencies {
		sum += l
	}
	g.Mean = ms(sum / time.Duration(len(g.latencies)))
	g.P50, g.P95, g.P99 = ms(percentile(g.latencies, 50)), ms(percentile(g.latencies, 95)), ms(percentile(g.latencies, 99))
	g.Max = ms(percentile(g.latencies, 100))
}

// percentile returns the smallest of the sorted values that is at least as large as p
// percent of the values.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max((p*len(sorted)+99)/100, 1)-1]
}

// ms is a duration in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// groups are those by one property.
type groups map[string]*Group

func (m groups) of(name string) *Group {
	if m[name] == nil {
		m[name] = &Group{Name: name}
	}
	return m[name]
}

// list has the largest first.
func (m groups) list() []Group {
	all := []Group{}
	for _, g := range m {
		g.settle()
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// width is the longest line that is printed.
const width = 80

// Print writes the report as text.
func (s Report) Print(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(fit(fmt.Sprintf(format, args...), width) + "\n")
	}
	line("%s", s.APIHost)
	line("%s", s.Load)
	if s.Interrupted {
		line("interrupted: these are the results until then")
	}
	line("")
	line("%d calls in %.1f s: %d ran, %d failed; %.1f successes a second",
		s.All.Calls, s.Seconds, s.Ran, s.Failed, s.Throughput)
	line("latency from the time at which each call was to be sent:")
	for _, t := range []struct {
		title  string
		groups []Group
	}{{"START", s.Starts}, {"ACTION", append(s.Actions[:len(s.Actions):len(s.Actions)], s.All)}} {
		line("")
		line("%-28s %7s %7s %8s %8s %8s %8s", t.title, "CALLS", "FAILED", "P50", "P95", "P99", "MAX")
		for _, g := range t.groups {
			line("%-28s %7d %7d %8s %8s %8s %8s", fit(g.Name, 28), g.Calls, g.Failed, g.short(g.P50), g.short(g.P95), g.short(g.P99), g.short(g.Max))
		}
	}
	if len(s.Failures) > 0 {
		line("")
		line("%-68s %11s", "FAILURE", "CALLS")
	}
	for _, f := range s.Failures {
		line("%-68s %11d", fit(f.Kind, 68), f.Count)
		if f.Example != "" {
			line("  first: %s", f.Example)
		}
	}
	if s.Late > 0 {
		line("")
		line("%d calls were sent late, by %s at most; latencies include that wait.", s.Late, short(s.Latest))
	}
	if s.Unsent > 0 {
		line("%d calls were not sent: --in-flight of others waited for their answers.", s.Unsent)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// short is short of one of the group's latencies, if it has any.
func (g Group) short(ms float64) string {
	if len(g.latencies) == 0 {
		return "-"
	}
	return short(ms)
}

// short writes milliseconds with three digits and a unit, for a narrow column.
func short(ms float64) string {
	v, unit := ms, "ms"
	if ms >= 999.5 {
		v, unit = ms/1e3, "s"
	}
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f %s", v, unit)
	case v < 99.95:
		return fmt.Sprintf("%.1f %s", v, unit)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

// fit shortens a text in its middle, which identifies it least.
func fit(text string, to int) string {
	runes := []rune(text)
	if len(runes) <= to {
		return text
	}
	head := (to - 2) / 2
	return string(runes[:head]) + ".." + string(runes[len(runes)-(to-2-head):])
}

// String is the line that is shown while a load runs.
func (p Progress) String() string {
	return fmt.Sprintf("%5s  sent %d  answered %d  under way %d  failed %d  slowest %s",
		p.At.Round(time.Second), p.Sent, p.Answered, p.Sent-p.Answered, p.Failed, short(ms(p.Slowest)))
}
