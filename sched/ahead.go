package sched

// With very many flows what costs most is waiting for memory: an event needs a
// dozen lines of it that nothing used for long, one after another. Lines that are
// asked for together come together. So an event begins with a look at what the
// next grant and it itself will need. The sum is of no use to anybody; it keeps
// the compiler from leaving the reading out.

// ahead looks at the flow that the order puts first now.
func (s *Scheduler) ahead() {
	if class, some := s.order.next(0); some {
		slot := s.order.first(class)
		s.touch(s.flows.at(slot))
	}
}

// touch looks at a flow, where it stands among others, and at its queue's ends.
func (s *Scheduler) touch(f *flow) {
	sum := f.lastSeen ^ f.vt ^ f.when
	sum ^= s.order.touch(f) ^ f.group.eligible.touch(f.place)
	if at := s.idleAt[f.slot]; at > 0 && f.queue.n == 1 {
		sum ^= s.expiry.e[at-1].k1 // it rests when this one is gone
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
	return o.buckets[o.bucket(f.group, max(0, f.class))].flows.touch(f.place)
}

func (t *tournament) touch(place int32) int64 {
	if int(place) >= t.wide || t.wide == 4 {
		return 0
	}
	return t.e[place].k1 ^ t.e[t.wide+int(place)/4].k1
}
