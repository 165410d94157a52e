package sim

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Finding is one claim with what came out.
type Finding struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Claim   string `json:"claim"`
	Paper   string `json:"paper"`
	Unit    string `json:"unit,omitempty"`
	Value   Spread `json:"value"`
	// Interval holds the median of all seeds with 95% confidence. It is nil
	// where there are too few seeds for one.
	Interval *Interval `json:"interval,omitempty"`
	Largest  float64   `json:"largest"` // over seeds
	Verdict  Verdict   `json:"verdict"`
	Why      string    `json:"why"`
}

// Between writes the interval of the median.
func (f Finding) Between() string {
	if f.Interval == nil {
		return "too few seeds"
	}
	return number(f.Interval.Low) + " to " + number(f.Interval.High)
}

// Ours writes the finding's figure: median, quantiles and unit.
func (f Finding) Ours() string {
	return fmt.Sprintf("%s%s [%s, %s]", number(f.Value.Median), f.Unit, number(f.Value.Q10), number(f.Value.Q90))
}

func number(v float64) string {
	switch {
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// claim is how a finding is made: which runs of a seed it needs, the figure it
// takes from them, and how that is judged.
type claim struct {
	section, name, text, paper, unit string
	value                            func(at reader) float64
	judge                            rule
	why                              string
}

// reader gives the result of a cell for the seed at hand.
type reader func(cell int) *Result

// cells are the runs that claims need, each once however many need it.
type cells struct {
	index map[string]int
	list  []Task // without seed
}

// mod changes one parameter of a cell.
type mod func(*Overrides, *Spec)

// seriesLoad is the load of the zipf class whose windows are kept for a figure.
const seriesLoad = 0.9

func (c *cells) add(s Spec, policy string, mods ...mod) int {
	var o Overrides
	for _, m := range mods {
		m(&o, &s)
	}
	server, err := o.Apply("mqfq-sticky")
	if err == nil {
		s = s.For(server)
	}
	p, perr := o.Apply(policy)
	if err != nil || perr != nil {
		panic(fmt.Sprintf("sim: a claim's own parameters are wrong: %v %v", err, perr))
	}
	p.Series = o.Series || s.Kind == "copies" || s.Kind == "zipf" && s.Load == seriesLoad
	key := fmt.Sprintf("%+v %+v", s, p)
	if i, ok := c.index[key]; ok {
		return i
	}
	c.index[key] = len(c.list)
	c.list = append(c.list, Task{Source: c.source(s), Params: p})
	return len(c.list) - 1
}

// source shares the source of equal specs.
func (c *cells) source(s Spec) *Source {
	for _, t := range c.list {
		if t.Source.spec == s {
			return t.Source
		}
	}
	return s.Source()
}

func (c *cells) zipf(policy string, mods ...mod) int { return c.add(DefaultSpec(), policy, mods...) }

// medium is the paper's trace 4; trace n its others.
func (c *cells) medium(policy string, mods ...mod) int { return c.trace(4, policy, mods...) }

func (c *cells) trace(id int, policy string, mods ...mod) int {
	s := DefaultSpec()
	s.Kind, s.Trace = "azure", id
	return c.add(s, policy, mods...)
}

func (c *cells) kind(kind, policy string, mods ...mod) int {
	s := DefaultSpec()
	s.Kind = kind
	return c.add(s, policy, mods...)
}

func tokens(n int) mod                { return func(o *Overrides, _ *Spec) { o.Tokens = &n } }
func pool(n int) mod                  { return func(o *Overrides, _ *Spec) { o.Pool = &n } }
func devices(n int) mod               { return func(o *Overrides, _ *Spec) { o.Devices = &n } }
func overrun(d time.Duration) mod     { return func(o *Overrides, _ *Spec) { o.Overrun = &d } }
func alpha(a float64) mod             { return func(o *Overrides, _ *Spec) { o.Alpha = &a } }
func retain(rule string) mod          { return func(o *Overrides, _ *Spec) { o.Retention = &rule } }
func interfere(s ...float64) mod      { return func(o *Overrides, _ *Spec) { o.Interference = s } }
func load(l float64) mod              { return func(_ *Overrides, s *Spec) { s.Load = l } }
func largeOnly() mod                  { return func(_ *Overrides, s *Spec) { s.Large = true } }
func lasting(d time.Duration) mod     { return func(_ *Overrides, s *Spec) { s.Duration = d } }
func charged(d time.Duration) mod     { return func(o *Overrides, _ *Spec) { o.FixedCharge = &d } }
func globalTTL() mod                  { yes := true; return func(o *Overrides, _ *Spec) { o.TTLGlobal = &yes } }
func leastTTL(d time.Duration) mod    { return func(o *Overrides, _ *Spec) { o.TTLMin = &d } }
func ttlOf(d time.Duration) mod       { return func(o *Overrides, _ *Spec) { o.TTLMin, o.TTLMax = &d, &d } }
func headroom(b Bytes) mod            { return func(o *Overrides, _ *Spec) { o.Headroom = &b } }
func recorded() mod                   { return func(o *Overrides, _ *Spec) { o.Series = true } }
func with(f func(*Overrides)) mod     { return func(o *Overrides, _ *Spec) { f(o) } }
func mean(r *Result) float64          { return r.Latency.Mean / 1000 }
func over(a, b *Result) float64       { return ratio(a.Latency.Mean, b.Latency.Mean) }
func both(m []mod, more ...mod) []mod { return append(append([]mod(nil), m...), more...) }

// CheckClaims names the flag where no claim's name begins with one of only.
func CheckClaims(only []string) error {
	if len(chosen(allClaims(&cells{index: make(map[string]int)}), only)) == 0 {
		return fmt.Errorf("--only %s: no claim begins so", strings.Join(only, ","))
	}
	return nil
}

// Claims makes the runs of every claim whose name begins with one of only, or
// of all, on seeds 1 to seeds, and judges them.
func Claims(ctx context.Context, only []string, seeds, parallel int, progress Progress) ([]Finding, error) {
	if err := CheckSeeds(seeds); err != nil {
		return nil, err
	}
	c := &cells{index: make(map[string]int)}
	if err := CheckClaims(only); err != nil {
		return nil, err
	}
	claims := chosen(allClaims(c), only)
	needed := c.needed(claims)
	results, err := c.run(ctx, needed, seeds, parallel, progress)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, k := range claims {
		v := make([]float64, seeds)
		largest := 0.0
		for s := range seeds {
			v[s] = k.value(func(cell int) *Result { return results[s][cell] })
			largest = max(largest, v[s])
		}
		spread := SpreadOf(v)
		interval := IntervalOf(v)
		found = append(found, Finding{
			Section: k.section, Name: k.name, Claim: k.text, Paper: k.paper, Unit: k.unit, Why: k.why,
			Value: spread, Interval: interval, Largest: largest, Verdict: k.judge.of(spread.Median, interval, largest),
		})
	}
	return found, nil
}

func chosen(claims []claim, only []string) []claim {
	if len(only) == 0 {
		return claims
	}
	var out []claim
	for _, k := range claims {
		for _, o := range only {
			if strings.HasPrefix(k.name, o) {
				out = append(out, k)
				break
			}
		}
	}
	return out
}

// needed finds out which cells the claims read, by letting them read blanks.
func (c *cells) needed(claims []claim) []int {
	seen := make([]bool, len(c.list))
	for _, k := range claims {
		k.value(func(cell int) *Result {
			seen[cell] = true
			return blank
		})
	}
	var out []int
	for i, s := range seen {
		if s {
			out = append(out, i)
		}
	}
	return out
}

// run makes the needed cells for every seed: results by seed, then cell.
func (c *cells) run(ctx context.Context, needed []int, seeds, parallel int, progress Progress) ([][]*Result, error) {
	var tasks []Task
	for s := range seeds {
		for _, cell := range needed {
			t := c.list[cell]
			t.Seed = uint64(s + 1)
			tasks = append(tasks, t)
		}
	}
	flat, err := RunAll(ctx, tasks, parallel, progress)
	if err != nil {
		return nil, err
	}
	results := make([][]*Result, seeds)
	for s := range results {
		results[s] = make([]*Result, len(c.list))
		for i, cell := range needed {
			results[s][cell] = flat[s*len(needed)+i]
		}
	}
	return results, nil
}
