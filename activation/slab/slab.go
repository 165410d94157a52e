// Package slab keeps very many small values of one type. Each on its own would lie
// among the garbage of its time and hold on to several times its size; here they
// lie together, and places are used again. It frees nothing by itself: who drops
// the slab drops all of it.
package slab

import "reflect"

// slabBytes is what is asked of the runtime at once: the largest size that it
// still keeps in classes, of which nothing is rounded up.
const slabBytes = 32 << 10

// Slab is a store of values. The zero value is empty and ready. It is not safe for
// use by several goroutines.
type Slab[T any] struct{ spare []*T }

// Take finds a place, whose value is zero.
func (s *Slab[T]) Take() *T {
	if len(s.spare) == 0 {
		all := make([]T, max(1, slabBytes/max(1, int(reflect.TypeFor[T]().Size()))))
		for i := range all {
			s.spare = append(s.spare, &all[i])
		}
	}
	n := len(s.spare) - 1
	p := s.spare[n]
	s.spare = s.spare[:n]
	return p
}

// Give returns a place, whose value is gone with it.
func (s *Slab[T]) Give(p *T) {
	var none T
	*p = none
	s.spare = append(s.spare, p)
}
