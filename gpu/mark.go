package gpu

// Mark says of a container, or of many at once, that their memory is the first to
// go. Marks form a tree: a container joins its flow's mark while it rests, a flow
// its namespace's while it has work. What was set last counts, on whichever of
// them, so that a word about all is one step however many there are.
type Mark struct {
	of    *Mark // nil for none
	on    bool
	at    uint64 // when that was said
	since uint64 // what was set on the one above before that does not count
	away  int    // containers that are not wholly on the device, of those that joined
}

// Marks orders what is said of the marks of one tree. The zero value is ready.
type Marks struct{ at uint64 }

// Set says it of a mark and of all that have joined it.
func (s *Marks) Set(m *Mark, on bool) {
	s.at++
	m.on, m.at = on, s.at
}

// Join has a mark follow what is said of another from now on.
func (s *Marks) Join(m, of *Mark) {
	s.Leave(m)
	s.at++
	m.of, m.since = of, s.at
	of.count(m.away)
}

// Leave ends that: what counted last stays.
func (s *Marks) Leave(m *Mark) {
	if m.of == nil {
		return
	}
	m.on, m.at = m.said()
	m.of.count(-m.away)
	m.of = nil
}

// On tells what counts.
func (m *Mark) On() bool {
	on, _ := m.said()
	return on
}

// Away is how many containers that follow the mark have memory that is not on the
// device, or is on its way off.
func (m *Mark) Away() int { return m.away }

func (m *Mark) said() (on bool, at uint64) {
	on, at = m.on, m.at
	if m.of != nil {
		if above, when := m.of.said(); when > max(at, m.since) {
			return above, when
		}
	}
	return on, at
}

func (m *Mark) count(by int) {
	for ; m != nil && by != 0; m = m.of {
		m.away += by
	}
}
