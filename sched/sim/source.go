package sim

import (
	"fmt"
	"sync"
)

// Source gives the workload of a seed. It makes each once and keeps it, so that
// policies compared on one seed share its workload. It is safe for use by
// several goroutines.
type Source struct {
	spec  Spec // of a generated workload
	build func(seed uint64) (*Workload, error)
	mu    sync.Mutex // guards made
	made  map[uint64]*once
}

type once struct {
	sync.Once
	workload *Workload
	err      error
	bounds   sync.Map // of a server's key, func() float64
}

// lowerBound returns LowerBound of a seed's workload on a server, which it
// computes once for all policies that run on that.
func (s *Source) lowerBound(seed uint64, p Params) float64 {
	w, err := s.Workload(seed)
	if err != nil {
		return 0
	}
	s.mu.Lock()
	o := s.made[seed]
	s.mu.Unlock()
	key := fmt.Sprint(p.Devices, p.Tokens.Max, p.Pool.Size, p.ContainerStart, p.Interference, p.InitInterferes, p.Warmup)
	least, _ := o.bounds.LoadOrStore(key, sync.OnceValue(func() float64 { return LowerBound(w, p) }))
	return least.(func() float64)()
}

// Source returns the source of a generated workload.
func (s Spec) Source() *Source {
	return &Source{spec: s, made: make(map[uint64]*once), build: func(seed uint64) (*Workload, error) {
		mine := s // two seeds may be built at once
		mine.Seed = seed
		return mine.Build()
	}}
}

// Fixed returns a source that gives one workload whatever the seed.
func Fixed(w *Workload) *Source {
	return &Source{made: make(map[uint64]*once), build: func(uint64) (*Workload, error) { return w, nil }}
}

// Workload returns the workload of a seed, which nobody may change.
func (s *Source) Workload(seed uint64) (*Workload, error) {
	s.mu.Lock()
	o := s.made[seed]
	if o == nil {
		o = new(once)
		s.made[seed] = o
	}
	s.mu.Unlock()
	o.Do(func() { o.workload, o.err = s.build(seed) })
	return o.workload, o.err
}
