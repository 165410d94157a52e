package goheap

import "runtime/metrics"

// By Go's measure, twice of what is held, a process that holds some MiB would
// look for garbage many times a minute, and find the same each time. How much
// may be made in between is told here instead, by what a small program saves
// and a machine does not miss.
const (
	// gathers is how much garbage there may be, about, while there is work.
	gathers = 24 << 20
	// usualPercent is what Go has.
	usualPercent = 100
	// mostPercent bounds what may gather by what is held, GOGC in percent.
	mostPercent = 400
)

// garbage is how much of it may gather.
type garbage struct {
	percent int // that is set
	set     func(percent int) int
}

func (g *garbage) suit(rests bool, live uint64) {
	if percent := percentFor(rests, live); percent != g.percent {
		g.set(percent)
		g.percent = percent
	}
}

// percentFor is what may gather until the next collection, in percent of what is
// held.
func percentFor(rests bool, live uint64) int {
	if rests {
		return usualPercent
	}
	const step = 50 // what is held differs a little each time
	return int(min(max(usualPercent, usualPercent*gathers/max(live, 1)/step*step), mostPercent))
}

// memory is the heap as Go has it.
type memory struct {
	live   uint64 // what the last collection found in use
	mapped uint64 // what is had of the system, for the heap or for nothing now
}

func read() (m memory) {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	metrics.Read(s)
	for i, v := range s {
		switch {
		case v.Value.Kind() != metrics.KindUint64:
		case i == 0:
			m.live = v.Value.Uint64()
		default:
			m.mapped += v.Value.Uint64()
		}
	}
	return m
}
