package activation

import "fmt"

// Limits holds the limits of an action.
type Limits struct {
	TimeoutMillis int
	MemoryMB      int
	LogsMB        int
	Concurrency   int
	Instances     int // zero: not limited
}

// Values of limits that an old action document lacks.
const (
	defaultLogsMB      = 10
	defaultConcurrency = 1
)

// JSON writes the limits as the annotation of a record has them.
func (l Limits) JSON() []byte {
	o := newObject(make([]byte, 0, 80))
	o.int("concurrency", int64(l.Concurrency))
	if l.Instances > 0 {
		o.int("instances", int64(l.Instances))
	}
	o.int("logs", int64(l.LogsMB))
	o.int("memory", int64(l.MemoryMB))
	o.int("timeout", int64(l.TimeoutMillis))
	return o.end()
}

func (p *parser) limits() Limits {
	l := Limits{LogsMB: defaultLogsMB, Concurrency: defaultConcurrency}
	p.fields(
		required("timeout", func() { l.TimeoutMillis = p.wholeInt() }),
		required("memory", func() { l.MemoryMB = p.wholeInt() }),
		optional("logs", func() { l.LogsMB = p.wholeInt() }),
		optional("concurrency", func() { l.Concurrency = p.wholeInt() }),
		optional("instances", func() { l.Instances = p.wholeInt() }),
	)
	return l
}

// Range holds the smallest and the largest allowed value.
type Range struct{ Min, Max int }

// clamp puts n into the range.
func (r Range) clamp(n int) int { return max(r.Min, min(n, r.Max)) }

// Bounds holds the allowed ranges of actions' limits and the limits of their answers.
type Bounds struct {
	TimeoutMillis Range
	MemoryMB      Range
	Concurrency   Range
	LogsMB        Range
	Payload       Size // longest answer
	Truncation    Size // length to which a longer answer is cut
}

// DefaultBounds returns OpenWhisk's shipped values.
func DefaultBounds() Bounds {
	return Bounds{
		TimeoutMillis: Range{100, 300_000},
		MemoryMB:      Range{128, 512},
		Concurrency:   Range{1, 1},
		LogsMB:        Range{0, 10},
		Payload:       MB,
		Truncation:    MB,
	}
}

// For returns the bounds for one user (Identity.scala). Each bound is the one of the
// user's namespace, or else the default for namespaces, or else the system's. It never
// exceeds the system's bound.
func (b Bounds) For(defaults, user UserLimits) Bounds {
	pick := func(r Range, userMin, userMax, defaultMin, defaultMax *int) Range {
		return Range{
			Min: r.clamp(first(r.Min, userMin, defaultMin)),
			Max: r.clamp(first(r.Max, userMax, defaultMax)),
		}
	}
	d, u := defaults, user
	return Bounds{
		TimeoutMillis: pick(b.TimeoutMillis, u.MinTimeoutMillis, u.MaxTimeoutMillis, d.MinTimeoutMillis, d.MaxTimeoutMillis),
		MemoryMB:      pick(b.MemoryMB, u.MinMemoryMB, u.MaxMemoryMB, d.MinMemoryMB, d.MaxMemoryMB),
		Concurrency:   pick(b.Concurrency, u.MinConcurrency, u.MaxConcurrency, d.MinConcurrency, d.MaxConcurrency),
		LogsMB:        pick(b.LogsMB, u.MinLogsMB, u.MaxLogsMB, d.MinLogsMB, d.MaxLogsMB),
		Payload:       min(b.Payload, first(b.Payload, u.MaxPayload, d.MaxPayload)),
		Truncation:    min(b.Truncation, first(b.Truncation, u.Truncation, d.Truncation)),
	}
}

// first returns the first value that is set.
func first[T any](system T, candidates ...*T) T {
	for _, c := range candidates {
		if c != nil {
			return *c
		}
	}
	return system
}

// LimitError reports a limit of an action that is outside its user's bounds. Its text
// is shown to the user.
type LimitError struct{ text string }

// Error returns the original's text, with the prefix of the original's precondition
// check.
func (e *LimitError) Error() string { return "requirement failed: " + e.text }

// Check compares an action's limits with the bounds, in the original's order;
// the error is a *LimitError.
func (b Bounds) Check(l Limits) error {
	for _, c := range [...]struct {
		value   int
		allowed Range
		name    string
		unit    string
	}{
		{l.TimeoutMillis, b.TimeoutMillis, "duration", " milliseconds"},
		{l.MemoryMB, b.MemoryMB, "memory size", " MB"},
		{l.Concurrency, b.Concurrency, "concurrency", ""},
		{l.LogsMB, b.LogsMB, "log size", " MB"},
	} {
		how, bound := "exceeds", c.allowed.Max
		if c.value < c.allowed.Min {
			how, bound = "below", c.allowed.Min
		} else if c.value <= c.allowed.Max {
			continue
		}
		return &LimitError{fmt.Sprintf("%s %d%s %s allowed threshold of %d%s", c.name, c.value, c.unit, how, bound, c.unit)}
	}
	return nil
}
