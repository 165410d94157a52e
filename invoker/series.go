package invoker

import "sync/atomic"

// series are those of one metric by its only label, which has few values: they
// are found sooner than in the metric itself, which takes a hash and a lock. A
// series is there from its first use on.
type series[T any] struct {
	make  func(label ...string) T
	known *atomic.Pointer[[]labelled[T]]
}

type labelled[T any] struct {
	label string
	one   T
}

func newSeries[T any](make func(label ...string) T) series[T] {
	return series[T]{make, new(atomic.Pointer[[]labelled[T]])}
}

// of gives the series of a label.
func (s series[T]) of(label string) T {
	known := s.known.Load()
	if known != nil {
		for i := range *known {
			if one := &(*known)[i]; one.label == label {
				return one.one
			}
		}
	}
	added := []labelled[T]{{label, s.make(label)}}
	if known != nil {
		added = append(added, *known...)
	}
	s.known.CompareAndSwap(known, &added) // who comes too late asks again next time
	return added[0].one
}
