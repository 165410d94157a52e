package sim

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Spec names a generated workload and its parameters. The zero value of a
// field that must be positive is an error: start from DefaultSpec.
type Spec struct {
	Kind      string        // one of Kinds
	Functions int           // how many, for zipf, burst, diurnal and the adversaries
	Load      float64       // share of Capacity that the arrivals ask for
	Capacity  float64       // of the server, see Capacity; 0 means 1
	Zipf      float64       // exponent of the popularity
	Trace     int           // azure: which of the nine samples
	Duration  time.Duration // arrivals lie in [0, Duration)
	WarmShare float64       // azure: how much of the published utilization is warm work
	Weight    float64       // of the first function; 0 means 1
	Footprint int64         // device memory of every function; 0 keeps the catalogue's
	Large     bool          // zipf: only functions of at least a second
	Seed      uint64
}

// DefaultSpec is the paper's Zipf class at the load where queues form.
func DefaultSpec() Spec {
	return Spec{Kind: "zipf", Functions: 24, Load: 0.7, Zipf: 1.5, Trace: 4, WarmShare: 0.55, Duration: 30 * time.Minute, Seed: 1}
}

// For sets the capacity that Load is a share of to that of a server.
func (s Spec) For(p Params) Spec {
	s.Capacity = Capacity(p)
	return s
}

// offered returns the warm seconds per second that the arrivals ask for.
func (s Spec) offered() float64 {
	if s.Capacity == 0 {
		return s.Load
	}
	return s.Load * s.Capacity
}

// kind is one generator: how it is called, what it makes, how.
type kind struct {
	name, text string
	build      func(Spec) (*Workload, error)
}

func kinds() []kind {
	return []kind{
		{"zipf", "copies of the paper's functions, exponential gaps, Zipf rates", zipf},
		{"azure", "heavy-tailed gaps, one of nine rates and utilizations (--trace-id)", azure},
		{"copies", "four copies of one function, two of them from the middle on", fourCopies},
		{"burst", "the zipf class at half the load, and bursts of one function after another", burst},
		{"diurnal", "the zipf class with the load swinging between 0.2x and 1.8x", diurnal},
		{"rare", "a hundred functions of one rate, and one that is called once a minute", rare},
		{"hog", "adversary: one function asks for the whole device over the zipf class", hog},
		{"tiny", "adversary: a thousand rare, short functions over eight common ones", tiny},
		{"liar", "adversary: a function whose cost is small until it is trusted, then large", liar},
		{"onoff", "adversary: a function that stays away until its debt is forgotten, then floods", onOff},
	}
}

// Kinds lists the generated workloads with a line about each.
func Kinds() (names, texts []string) {
	for _, k := range kinds() {
		names, texts = append(names, k.name), append(texts, k.text)
	}
	return names, texts
}

// Build generates the workload. Errors name the flag that is at fault.
func (s Spec) Build() (*Workload, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	for _, k := range kinds() {
		if k.name != s.Kind {
			continue
		}
		w, err := k.build(s)
		if err != nil {
			return nil, err
		}
		w.Horizon = s.Duration
		w.Functions[0].Weight = s.Weight
		s.size(w)
		inOrder(w.Arrivals)
		if len(w.Arrivals) == 0 {
			return nil, fmt.Errorf("workload %s: no arrivals in %v: raise --load or --duration", s.Kind, s.Duration)
		}
		return w, w.Validate()
	}
	names, _ := Kinds()
	return nil, fmt.Errorf("--workload %q: not one of %s", s.Kind, strings.Join(names, ", "))
}

// size gives every function the same footprint, if one is asked for.
func (s Spec) size(w *Workload) {
	for i := range w.Functions {
		if s.Footprint > 0 {
			w.Functions[i].Memory = s.Footprint
		}
	}
}

func (s Spec) validate() error {
	switch {
	case s.Functions < 1 || s.Functions > MaxFunctions:
		return fmt.Errorf("--count %d: must lie within 1 and %d", s.Functions, MaxFunctions)
	case !(s.Load > 0 && s.Load <= 100):
		return fmt.Errorf("--load %v: must be above 0 and at most 100", s.Load)
	case !(s.Capacity >= 0 && s.Capacity <= 1e6):
		return fmt.Errorf("capacity %v: must lie within 0 and 1e6", s.Capacity)
	case math.IsNaN(s.Zipf) || s.Zipf < 0 || s.Zipf > 10:
		return fmt.Errorf("--zipf %v: must lie within 0 and 10", s.Zipf)
	case s.Footprint < 0 || s.Footprint > maxBytes:
		return fmt.Errorf("--footprint %s: must lie within 0 and %s", Bytes(s.Footprint), Bytes(maxBytes))
	case s.Weight != 0 && !(s.Weight >= 0.001 && s.Weight <= 1000):
		return fmt.Errorf("weight %v: must lie within 0.001 and 1000", s.Weight)
	case !(s.WarmShare > 0 && s.WarmShare <= 1):
		return fmt.Errorf("--warm-share %v: must be above 0 and at most 1", s.WarmShare)
	case s.Trace < 0 || s.Trace >= len(azureSamples):
		return fmt.Errorf("--trace-id %d: must lie within 0 and %d", s.Trace, len(azureSamples)-1)
	case s.Duration <= 0 || s.Duration > maxTime:
		return fmt.Errorf("--duration %v: must be above 0 and at most %v", s.Duration, maxTime)
	}
	return nil
}
