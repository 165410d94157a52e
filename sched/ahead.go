package sched

// With very many flows what costs most is waiting for memory: an event needs a
// dozen lines of it that nothing used for long, one after another. Lines that are
// asked for together come together. So an event begins with a look at what the
// next grant and it itself will need. The sum is of no use to anybody; it keeps
// the compiler from leaving the reading out.

// ahead looks at the flow that the order puts first now.
func (s *Scheduler) ahead() {
	if class, some := s.order.next(0); some {
		slot, _ := s.order.first(class)
		s.touch(s.flows.at(slot))
	}
}

// touch looks at a flow, where it stands among others, and at its queue's ends.
func (s *Scheduler) touch(f *flow) {
	sum := f.lastSeen ^ f.vt ^ f.when
	sum ^= s.order.touch(f) ^ f.group.level.touch(f.standing, s.vtAt[f.slot])
	if f.queue.n == 1 {
		sum ^= int64(s.idleAt[f.slot])
	}
	if f.queue.n > 0 {
		sum ^= s.items.touch(f.queue.head) ^ s.items.all[f.queue.tail].seq
	}
	s.touched ^= sum
}

// touch looks at an item, at the one behind it and at the place of its id.
func (s *items) touch(i int32) int64 {
	it := &s.all[i]
	sum := it.seq ^ s.byID.touch(it.id)
	if it.next != none {
		sum ^= s.all[it.next].seq
	}
	return sum
}

func (t *ids) touch(id uint64) int64 { return int64(t.cell[t.home(hashID(id))].hash) }

func (o *order) touch(f *flow) int64 {
	t := &o.buckets[o.bucket(f.group, max(0, f.class))].flows
	if int(f.place) >= t.wide || t.wide == 4 {
		return 0
	}
	return t.e[f.place].k1 ^ t.e[t.wide+int(f.place)/4].k1
}

func (l *level) touch(st standing, at int32) int64 {
	h := l.heapOf(st)
	if at == 0 {
		return 0
	}
	below := min(4*int(at)-3, h.len()-1)
	return h.e[at-1].k1 ^ h.e[below].k1
}
