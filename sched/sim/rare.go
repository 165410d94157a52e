package sim

import (
	"fmt"
	"time"
)

// crowd is how many functions share the load of the rare class.
const crowd = 100

// rare is a crowd of functions that share the load evenly, and a last one that
// is called about once a minute: under a load above 1 it finds work waiting in
// every other flow.
func rare(s Spec) (*Workload, error) {
	w := &Workload{Name: "rare"}
	one := Function{Warm: 100 * time.Millisecond, Cold: 1100 * time.Millisecond, Memory: 64 * mib}
	rate := s.offered() / one.Warm.Seconds() / crowd
	for i := range crowd + 1 {
		f := one
		f.Name = fmt.Sprintf("crowd-%02d", i)
		if i == crowd {
			f.Name, rate = "rare", 1.0/60
		}
		w.Functions = append(w.Functions, f)
		w.Arrivals = renew(w.Arrivals, stream(s.Seed, uint64(i+1)), i, exponential, rate, 0, s.Duration)
	}
	return w, nil
}
