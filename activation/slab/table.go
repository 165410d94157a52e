package slab

// Table is a map whose memory goes when it has become empty: a map by itself keeps
// the room of the most that it ever held. The zero value is empty and ready. It is
// not safe for use by several goroutines.
type Table[K comparable, V any] struct {
	m    map[K]V
	most int
}

// large is from how many values on the room of an empty table is given back.
const large = 512

// Get gives the value of a key, or none.
func (t *Table[K, V]) Get(k K) V { return t.m[k] }

// Set has a key have a value.
func (t *Table[K, V]) Set(k K, v V) {
	if t.m == nil {
		t.m = map[K]V{}
	}
	t.m[k] = v
	t.most = max(t.most, len(t.m))
}

// Delete takes a key out. It tells whether the table gave back its room.
func (t *Table[K, V]) Delete(k K) (emptied bool) {
	delete(t.m, k)
	if len(t.m) > 0 || t.most < large {
		return false
	}
	t.m, t.most = nil, 0
	return true
}

// Len is how many keys there are.
func (t *Table[K, V]) Len() int { return len(t.m) }

// All is to be ranged over and left as it is.
func (t *Table[K, V]) All() map[K]V { return t.m }
