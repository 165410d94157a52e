package sched

import (
	"fmt"
	"time"
)

// simpleOrders are policies whose choices are easy to foresee, for tests.
func simpleOrders() []Policy {
	by := func(key func(Flow) Key) func() Order { return func() Order { return Order{Key: key} } }
	none := func(Config) time.Duration { return 0 }
	return []Policy{
		{Name: "least-time", Window: Config.MaxOverrun, Order: by(Flow.VirtualTime)},
		{Name: "least-time-strict", Window: none, Order: by(Flow.VirtualTime)},
		{Name: "shortest", Order: by(byService)},
		{Name: "deadline", Order: by(func(f Flow) Key { return Key{int64(f.Arrived() + f.Setup() + f.Expected())} })},
		{Name: "fewest-runs", Order: fewestRuns},
	}
}

func byService(f Flow) Key { return Key{int64(f.Expected())} }

// fewestRuns is the order of the runs that flows have had. Its hooks must be balanced: no
// run is undone that was not granted.
func fewestRuns() Order {
	runs := map[Flow]int64{}
	return Order{
		Key: func(f Flow) Key { return Key{runs[f]} },
		Granted: func(f Flow) {
			if len(f.f.queue) == 0 || !f.Competes() || f.Oldest() > f.Newest() {
				panic(fmt.Sprintf("%s is granted without a head", f.f.id))
			}
			runs[f]++
		},
		Undone: func(f Flow) {
			if runs[f]--; runs[f] < 0 {
				panic(fmt.Sprintf("%s has more runs undone than granted", f.f.id))
			}
		},
	}
}

// testPolicy is a policy by its name, a simple order included.
func testPolicy(name string) Policy {
	for _, p := range append(Policies(), simpleOrders()...) {
		if p.Name == name {
			return p
		}
	}
	panic("no policy " + name)
}
