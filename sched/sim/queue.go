package sim

// Queue is a heap of items, as container/heap takes it.
type Queue[T interface{ Before(T) bool }] []T

func (q Queue[T]) Len() int           { return len(q) }
func (q Queue[T]) Less(i, j int) bool { return q[i].Before(q[j]) }
func (q Queue[T]) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *Queue[T]) Push(x any)        { *q = append(*q, x.(T)) }

func (q *Queue[T]) Pop() any {
	n := len(*q) - 1
	last := (*q)[n]
	*q = (*q)[:n]
	return last
}
