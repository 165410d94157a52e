package gpu

// EvictFlag says of a container, or of many at once, that their memory is the first
// to be evicted. Flags form a tree: a container joins its flow's flag while it rests,
// a flow its namespace's while it has work. What was set last counts, on whichever of
// them, so that all of a namespace are flagged in one step.
type EvictFlag struct {
	of    *EvictFlag // nil for none
	on    bool
	at    uint64 // when that was set
	since uint64 // what was set on the one above before that does not count
	away  int    // containers that are not wholly on the device, of those that joined
}

// EvictFlags orders what is set on the flags of one tree. The zero value is ready.
type EvictFlags struct{ at uint64 }

// Set sets a flag and all that have joined it.
func (s *EvictFlags) Set(m *EvictFlag, on bool) {
	s.at++
	m.on, m.at = on, s.at
}

// Join has a flag follow another from now on.
func (s *EvictFlags) Join(m, of *EvictFlag) {
	s.Leave(m)
	s.at++
	m.of, m.since = of, s.at
	of.count(m.away)
}

// Leave ends that: what counted last stays.
func (s *EvictFlags) Leave(m *EvictFlag) {
	if m.of == nil {
		return
	}
	m.on, m.at = m.value()
	m.of.count(-m.away)
	m.of = nil
}

// On tells what counts.
func (m *EvictFlag) On() bool {
	on, _ := m.value()
	return on
}

// Away is how many containers that follow the flag have memory that is not on the
// device, or is on its way off.
func (m *EvictFlag) Away() int { return m.away }

func (m *EvictFlag) value() (on bool, at uint64) {
	on, at = m.on, m.at
	if m.of != nil {
		if above, when := m.of.value(); when > max(at, m.since) {
			return above, when
		}
	}
	return on, at
}

func (m *EvictFlag) count(by int) {
	for ; m != nil && by != 0; m = m.of {
		m.away += by
	}
}
