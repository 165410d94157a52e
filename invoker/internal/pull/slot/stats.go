package slot

import "time"

// Stats is how many slots there are, and the memory of their containers in MiB.
// Paused and idle ones count as free memory.
type Stats struct {
	Opening  int `json:"opening"`
	Fetching int `json:"fetching"`
	Leaving  int `json:"leaving"`
	Paused   int `json:"paused"`
	Waiting  int `json:"waitingCreations"`
	Runs     int `json:"pulled"` // activations that have not ended
	Seeking  int `json:"seeking"`

	BusyMB    int64 `json:"busyMB"`
	IdleMB    int64 `json:"idleMB"` // of BusyMB, that schedulers have nothing for
	PausedMB  int64 `json:"pausedMB"`
	OpeningMB int64 `json:"openingMB"`

	// GPUBacklogMS is the time for which pulled activations that cannot run yet will keep the
	// GPUs busy.
	GPUBacklogMS int64 `json:"gpuBacklogMs"`
}

// Stats counts.
func (t *Table) Stats(now time.Duration) Stats {
	st := Stats{Waiting: len(t.waiting), GPUBacklogMS: t.backlog().Milliseconds()}
	for _, s := range t.slots {
		st.Runs += s.runs
		if s.lost && s.state == open {
			st.Seeking++
		}
		if s.idle(now) || s.ends() {
			st.IdleMB += int64(s.MemoryMB)
		}
		mb := int64(s.MemoryMB)
		if s.GPU { // its container's memory is the GPU scheduler's
			mb = 0
		}
		switch s.state {
		case acquiring, registering:
			st.Opening++
			st.OpeningMB += mb
		case open:
			st.Fetching++
			st.BusyMB += mb
		case leaving, pausing, warming:
			st.Leaving++
			st.BusyMB += mb
		case paused:
			st.Paused++
			st.PausedMB += mb
		}
	}
	return st
}

// View is one slot as /pool shows it.
type View struct {
	ID       ID
	Creation Creation
	Opening  bool
	Paused   bool
}

// Views lists the slots by their ids.
func (t *Table) Views() []View {
	all := make([]View, 0, len(t.slots))
	for _, s := range t.slots {
		all = append(all, View{s.id, s.Creation, s.state == acquiring || s.state == registering, s.state == paused})
	}
	return all
}

// Has reports whether a slot exists.
func (t *Table) Has(id ID) bool { return t.get(id) != nil }

// Len is how many slots there are.
func (t *Table) Len() int { return len(t.slots) }
