package scheduler

import (
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// simpleOrders are policies besides the served ones under which the scheduler is tested.
func simpleOrders() map[string]sched.Policy {
	by := func(key func(sched.Flow) sched.Key) func() sched.Order {
		return func() sched.Order { return sched.Order{Key: key} }
	}
	return map[string]sched.Policy{
		"least-time": {Window: sched.Config.MaxOverrun, Order: by(sched.Flow.VirtualTime)},
		"newest":     {Order: by(func(f sched.Flow) sched.Key { return sched.Key{-f.Newest()} })},
		"shortest":   {Order: by(func(f sched.Flow) sched.Key { return sched.Key{int64(f.Expected())} })},
		"deadline":   {Order: by(func(f sched.Flow) sched.Key { return sched.Key{int64(f.Arrived() + f.Setup() + f.Expected())} })},
		"fewest-runs": {Order: func() sched.Order {
			runs := map[sched.Flow]int64{}
			return sched.Order{
				Key:     func(f sched.Flow) sched.Key { return sched.Key{runs[f]} },
				Granted: func(f sched.Flow) { runs[f]++ },
				Undone:  func(f sched.Flow) { runs[f]-- },
			}
		}},
	}
}

// defaults returns the defaults of a served policy or of a simple order.
func defaults(policy string) sched.Config {
	if p, ok := simpleOrders()[policy]; ok {
		return p.Defaults()
	}
	cfg, _ := sched.Defaults(policy)
	return cfg
}

// newPolicy makes a served policy or a simple order.
func newPolicy(name string, cfg sched.Config, view sched.View) (Policy, error) {
	if p, ok := simpleOrders()[name]; ok {
		return p.New(cfg, view)
	}
	return sched.New(name, cfg, view)
}
