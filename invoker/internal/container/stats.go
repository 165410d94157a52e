package container

import (
	"maps"
	"slices"
)

// Stats is a copy of the pool's figures for metrics and status.
type Stats struct {
	Waiting    int `json:"waiting"`
	WaitingMB  int `json:"waitingMB"`
	Active     int `json:"active"` // in use by activations, or pinned
	ActiveMB   int `json:"activeMB"`
	Idle       int `json:"idle"`
	IdleMB     int `json:"idleMB"`
	Prewarm    int `json:"prewarm"` // starting ones included
	PrewarmMB  int `json:"prewarmMB"`
	Removing   int `json:"removing"`
	ReservedMB int `json:"reservedMB"`
	UsedMB     int `json:"usedMB"`
	MemoryMB   int `json:"memoryMB"`
	// Prewarms counts for each stem cell how it went since the start.
	Prewarms []PrewarmStats `json:"prewarms,omitempty"`
}

// PrewarmStats counts the containers of a stem cell by their outcome.
type PrewarmStats struct {
	Kind     string `json:"kind"`
	MemoryMB int    `json:"memoryMB"`
	Missed   int    `json:"missed"`  // cold starts that one could have served
	Expired  int    `json:"expired"` // removed unused
}

// Stats counts containers by their state.
func (p *Pool) Stats() Stats {
	st := Stats{
		Waiting: p.queue.Len(), WaitingMB: p.queue.memoryMB,
		ReservedMB: p.reserved, UsedMB: p.used, MemoryMB: p.cfg.MemoryMB,
	}
	for _, c := range p.cells {
		same := func(s PrewarmStats) bool { return s.Kind == c.Kind && s.MemoryMB == c.MemoryMB }
		if i := slices.IndexFunc(st.Prewarms, same); i >= 0 { // listed twice: both count the same misses
			st.Prewarms[i].Expired += c.expired
			continue
		}
		st.Prewarms = append(st.Prewarms, PrewarmStats{Kind: c.Kind, MemoryMB: c.MemoryMB, Missed: c.missed, Expired: c.expired})
	}
	for _, s := range p.slots {
		switch {
		case s.state == removing:
			st.Removing++
		case s.state == starting || s.state == started:
			st.Prewarm++
			st.PrewarmMB += s.memoryMB
		case s.occupied():
			st.Active++
			st.ActiveMB += s.memoryMB
		default:
			st.Idle++
			st.IdleMB += s.memoryMB
		}
	}
	return st
}

// View is one container as a status page shows it.
type View struct {
	Slot     SlotID
	Kind     string
	State    string
	MemoryMB int
	Active   int
}

// Views copies every container, the oldest first.
func (p *Pool) Views() []View {
	out := make([]View, 0, len(p.slots))
	for _, id := range slices.Sorted(maps.Keys(p.slots)) {
		s := p.slots[id]
		out = append(out, View{s.id, s.kind, s.state.String(), s.memoryMB, s.active})
	}
	return out
}

// String is the state's name on status pages.
func (s state) String() string {
	return [...]string{"starting", "prewarmed", "warming", "running", "ready", "pausing", "paused", "removing"}[s]
}
