package sim

import "sync"

// Source gives the workload of a seed. It makes each once and keeps it, so that
// policies compared on one seed share its workload. It is safe for use by
// several goroutines.
type Source struct {
	spec  Spec // of a generated workload
	build func(seed uint64) (*Workload, error)
	mu    sync.Mutex // guards made
	made  map[uint64]func() (*Workload, error)
}

// Source returns the source of a generated workload.
func (s Spec) Source() *Source {
	return &Source{spec: s, made: make(map[uint64]func() (*Workload, error)), build: func(seed uint64) (*Workload, error) {
		s := s // two seeds may be built at once
		s.Seed = seed
		return s.Build()
	}}
}

// Fixed returns a source that gives one workload whatever the seed.
func Fixed(w *Workload) *Source {
	return &Source{made: make(map[uint64]func() (*Workload, error)), build: func(uint64) (*Workload, error) { return w, nil }}
}

// Workload returns the workload of a seed, which must not be changed.
func (s *Source) Workload(seed uint64) (*Workload, error) {
	s.mu.Lock()
	made, ok := s.made[seed]
	if !ok {
		made = sync.OnceValues(func() (*Workload, error) { return s.build(seed) })
		s.made[seed] = made
	}
	s.mu.Unlock()
	return made()
}
