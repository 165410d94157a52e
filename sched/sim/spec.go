package sim

import (
	"fmt"
	"strings"
	"time"
)

// Spec names a generated workload and its parameters. The commands take it as
// their flags. The zero value of a field that must be positive is an error:
// start from DefaultSpec.
type Spec struct {
	Kind      string        `name:"workload" default:"zipf" enum:"zipf,equal,azure,copies,burst,diurnal,ramp,rare,bimodal,hot,thrice,flash,hog,tiny,liar,onoff" group:"Workload" help:"Generated workload: ${enum}."`
	Count     int           `default:"24" group:"Workload" help:"Number of functions of the zipf class and of the classes that build on it."`
	Load      float64       `default:"0.7" group:"Workload" help:"Demand as a share of the server's capacity, with everything warm. A load above 1 cannot be served."`
	Zipf      float64       `default:"1.5" group:"Workload" help:"Exponent of the popularity."`
	TraceID   int           `default:"4" group:"Workload" help:"Number of the azure sample, 0 to 8; 4 is the medium trace."`
	WarmShare float64       `default:"0.55" group:"Workload" help:"Share of an azure sample's published utilization that is warm work."`
	Footprint Bytes         `default:"0B" group:"Workload" help:"Device memory of every generated function; 0 keeps the published sizes."`
	Weight    float64       `default:"1" group:"Workload" help:"Weight of the first function in fair queueing."`
	Large     bool          `group:"Workload" help:"Only functions of about two seconds or more."`
	Duration  time.Duration `default:"30m" group:"Workload" help:"How long activations arrive."`
	Seed      uint64        `default:"1" group:"Seeds" help:"Seed of the arrivals; the first seed if there are several."`

	Capacity float64 `kong:"-"` // of the server, see Capacity; 0 means 1
}

// DefaultSpec is the paper's Zipf class at the load where queues form.
func DefaultSpec() Spec {
	return Spec{Kind: "zipf", Count: 24, Load: 0.7, Zipf: 1.5, TraceID: 4, WarmShare: 0.55, Weight: 1, Duration: 30 * time.Minute, Seed: 1}
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

// Kind is one generator: its name, a description, and its function.
type Kind struct {
	Name, Text string
	build      func(Spec, *Workload) error
}

// Kinds lists the generated workloads.
func Kinds() []Kind {
	return []Kind{
		{"zipf", "copies of the paper's functions, exponential gaps, Zipf rates", zipf},
		{"equal", "copies of the paper's functions with equal parts of the load", equal},
		{"azure", "heavy-tailed gaps, one of nine rates and utilizations (--trace-id)", azure},
		{"copies", "four copies of one function, two of them from the middle on", fourCopies},
		{"burst", "the zipf class at half the load, and bursts of one function after another", burst},
		{"diurnal", "the zipf class with the load swinging between 0.2x and 1.8x", diurnal},
		{"ramp", "the zipf class with the load rising from none to twice the load", ramp},
		{"rare", "a hundred functions of one rate, and one that is called once a minute", rare},
		{"bimodal", "half of the work in runs of 50 ms, half in runs of 60 s", bimodal},
		{"hot", "five busy functions, and three hundred that are called a few times an hour", hot},
		{"thrice", "eight known functions, and new ones that are called three times", thrice},
		{"flash", "twenty calm functions, of which one is called 400 times within ten seconds", flash},
		{"hog", "adversary: one function asks for the whole device over the zipf class", hog},
		{"tiny", "adversary: a thousand rare, short functions over eight common ones", tiny},
		{"liar", "adversary: a function with short runs until its estimate is small, then long ones", liar},
		{"onoff", "adversary: a function that is idle for longer than its TTL, then floods", onOff},
	}
}

// Build generates the workload. Errors name the flag that is at fault.
func (s Spec) Build() (*Workload, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	var names []string
	for _, k := range Kinds() {
		if k.Name == s.Kind {
			return s.build(k)
		}
		names = append(names, k.Name)
	}
	return nil, fmt.Errorf("--workload %q: not one of %s", s.Kind, strings.Join(names, ", "))
}

func (s Spec) build(k Kind) (*Workload, error) {
	w := &Workload{Name: s.Kind, Horizon: s.Duration}
	if err := k.build(s, w); err != nil {
		return nil, err
	}
	w.Functions[0].Weight = s.Weight
	if s.Footprint > 0 {
		for i := range w.Functions {
			w.Functions[i].Memory = int64(s.Footprint)
		}
	}
	inOrder(w.Arrivals)
	if len(w.Arrivals) == 0 {
		return nil, fmt.Errorf("workload %s: no arrivals in %v: raise --load or --duration", s.Kind, s.Duration)
	}
	return w, w.Validate()
}

func (s Spec) validate() error {
	return within(
		inside("--count", s.Count, 1, MaxFunctions),
		above("--load", s.Load, 0, 100),
		inside("capacity", s.Capacity, 0, 1e6),
		inside("--zipf", s.Zipf, 0, 10),
		inside("--footprint", s.Footprint, 0, maxBytes),
		inside("--weight", s.Weight, 0.001, 1000),
		above("--warm-share", s.WarmShare, 0, 1),
		inside("--trace-id", s.TraceID, 0, len(azureSamples)-1),
		above("--duration", s.Duration, 0, maxTime),
	)
}
