package load

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Report is what a load came to, in figures. Its JSON is an interface.
type Report struct {
	APIHost     string    `json:"apihost"`
	Load        string    `json:"load"` // in words
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

// lateness is what the timers of a busy machine may take.
const lateness = 10 * time.Millisecond

// Summarise counts.
func Summarise(r *Result, actions []string) Report {
	s := Report{Begin: r.Begin, Seconds: r.Took.Seconds(), Sent: len(r.Calls), Interrupted: r.Interrupted}
	all, byStart, byAction := Group{Name: "all"}, groups{}, groups{}
	failures := map[string]*Failure{}
	failed := func(kind, example string, n int) {
		f := failures[kind]
		if f == nil {
			f = &Failure{Kind: kind, Example: example}
			failures[kind] = f
		}
		f.Count += n
	}
	for _, c := range r.Calls {
		all.add(c)
		byAction.of(actions[c.Action]).add(c)
		if c.Ran {
			s.Ran++
			byStart.of(cmp.Or(c.Start, Unknown)).add(c)
		}
		if c.Failure != "" {
			failed(c.Failure, c.Detail, 1)
		}
		if c.Late > lateness {
			s.Late++
		}
		s.Latest = max(s.Latest, ms(c.Late))
	}
	for i, n := range r.Unsent {
		if n > 0 {
			s.Unsent += n
			all.Calls, all.Failed = all.Calls+n, all.Failed+n
			g := byAction.of(actions[i])
			g.Calls, g.Failed = g.Calls+n, g.Failed+n
			failed(failureUnsent, "", n)
		}
	}
	s.All, s.Starts, s.Actions = all.settled(), byStart.list(), byAction.list()
	s.Failed = s.All.Failed
	if r.Took > 0 {
		s.Throughput = float64(s.All.Calls-s.Failed) / r.Took.Seconds()
	}
	s.Failures = []Failure{}
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

// settled is the group with its percentiles, which are exact.
func (g Group) settled() Group {
	slices.Sort(g.latencies)
	if n := len(g.latencies); n > 0 {
		g.P50, g.P95, g.P99 = percentile(g.latencies, 50), percentile(g.latencies, 95), percentile(g.latencies, 99)
		g.Max = ms(g.latencies[n-1])
	}
	return g
}

// percentile is the smallest value that at least p percent do not exceed.
func percentile(sorted []time.Duration, p int) float64 {
	rank := (p*len(sorted) + 99) / 100
	return ms(sorted[max(rank, 1)-1])
}

// ms is a duration in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// groups are those by one property.
type groups map[string]*Group

func (m groups) of(name string) *Group {
	g := m[name]
	if g == nil {
		g = &Group{Name: name}
		m[name] = g
	}
	return g
}

// list has the largest first.
func (m groups) list() []Group {
	all := []Group{}
	for _, g := range m {
		all = append(all, g.settled())
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name))
	})
	return all
}
