package sched

import "math/bits"

// order finds the flow that a policy wants first among those that may run.
//
// A policy gives each flow a class and a key; inside a class the least key is
// first, and among the first of each class the policy picks. Flows of one
// group and class form a bucket, so that a throttled namespace leaves and
// comes back with all its flows at once.
type order struct {
	buckets []bucket
	free    []int32
	at      []int32 // of buckets in classes
	classes []heap  // buckets of eligible groups by their first flow
	some    []uint64
	nested  bool
}

// classPage is how many classes a group's table of buckets grows by: a
// namespace with one flow should not pay for all classes.
const classPage = 64

type bucket struct {
	group *group
	class int8
	flows tournament
}

func (o *order) init(classes int, nested bool) {
	o.nested = nested
	o.classes = make([]heap, classes)
	for i := range o.classes {
		o.classes[i].at = &o.at
	}
	o.some = make([]uint64, (classes+63)/64)
}

// put adds an absent flow or gives a present one its new class and key.
func (o *order) put(f *flow, class int8, k1, k2 int64) {
	if f.class != class {
		o.remove(f)
		f.class = class
	}
	b := o.bucket(f.group, class)
	o.buckets[b].flows.set(f.place, entryOf(k1, k2, f.slot))
	o.sync(b)
}

func (o *order) remove(f *flow) {
	if f.class == outside {
		return
	}
	b := o.bucket(f.group, f.class)
	f.class = outside
	o.buckets[b].flows.set(f.place, vacant)
	o.sync(b)
}

// bucket finds or makes the bucket of a group and class.
func (o *order) bucket(g *group, class int8) int32 {
	if g.buckets == nil {
		g.buckets = make([]*[classPage]int32, (len(o.classes)+classPage-1)/classPage)
	}
	page := g.buckets[int(class)/classPage]
	if page == nil {
		page = new([classPage]int32)
		g.buckets[int(class)/classPage] = page
	}
	if b := page[class%classPage]; b != 0 {
		return b - 1
	}
	var b int32
	if n := len(o.free); n > 0 {
		b, o.free = o.free[n-1], o.free[:n-1]
	} else {
		b = int32(len(o.buckets))
		o.buckets = append(o.buckets, bucket{})
		o.at = append(o.at, 0)
	}
	o.buckets[b].group, o.buckets[b].class = g, class
	page[class%classPage] = b + 1
	return b
}

// sync brings a bucket's place among its class up to date.
func (o *order) sync(b int32) {
	bk := &o.buckets[b]
	c := &o.classes[bk.class]
	in := o.at[b] != 0
	want := bk.group.standing == eligible && bk.flows.n > 0
	switch k1, k2 := o.key(bk); {
	case want && in:
		c.fix(b, k1, k2)
	case want:
		c.push(b, k1, k2)
		o.some[bk.class/64] |= 1 << (bk.class % 64)
	case in:
		c.remove(b)
		if c.len() == 0 {
			o.some[bk.class/64] &^= 1 << (bk.class % 64)
		}
	}
}

// key is a bucket's place in its class: that of its first flow, or when nested
// that of its group.
func (o *order) key(b *bucket) (k1, k2 int64) {
	switch {
	case o.nested:
		return b.group.vt, b.group.serial
	case b.flows.n > 0:
		return b.flows.winner.k1, b.flows.winner.k2()
	}
	return 0, 0
}

// syncGroup follows a change of the group's standing, or when nested of its
// virtual time.
func (o *order) syncGroup(g *group) {
	if o.nested && len(g.buckets) > 0 { // a single class
		o.sync(g.buckets[0][0] - 1)
		return
	}
	for _, page := range g.buckets {
		if page == nil {
			continue
		}
		for _, b := range page {
			if b != 0 {
				o.sync(b - 1)
			}
		}
	}
}

// dropGroup gives the empty buckets of a group back.
func (o *order) dropGroup(g *group) {
	for _, page := range g.buckets {
		if page == nil {
			continue
		}
		for _, b := range page {
			if b != 0 {
				o.buckets[b-1].group = nil
				o.free = append(o.free, b-1)
			}
		}
	}
	g.buckets = nil
}

// first is the first flow of a class that is not empty.
func (o *order) first(class int) (slot int32) {
	b := o.classes[class].top().slot()
	return o.buckets[b].flows.winner.slot()
}

// next gives the first class at or after the given one that is not empty.
func (o *order) next(class int) (int, bool) {
	for w := class / 64; w < len(o.some); w++ {
		m := o.some[w]
		if w == class/64 {
			m &= ^uint64(0) << (class % 64)
		}
		if m != 0 {
			return w*64 + bits.TrailingZeros64(m), true
		}
	}
	return 0, false
}
