package assembly

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// An invoker holds some MiB, so that by Go's measure, twice of what is held, it
// would look for garbage many times a minute, and find the same each time. How
// much may be made in between is told here instead, by what a small program
// saves and a machine does not miss.
const (
	// garbage is how much may gather, about, while there is work.
	garbage = 24 << 20
	// usualPercent is what Go has.
	usualPercent = 100
	// mostPercent bounds what may gather by what is held, GOGC in percent.
	mostPercent = 400
	// restful is a time between two collections that tells that there is no
	// work: nothing gathers then, and the memory goes back to the system. Go
	// collects every two minutes at the latest.
	restful = time.Minute
)

// spareCollections has the process collect its garbage less often than Go would
// while there is work, from the next collection on, unless somebody set GOGC.
// It starts no goroutine: Go tells of each collection.
var spareCollections = sync.OnceFunc(func() {
	if set := debug.SetGCPercent(usualPercent); set != usualPercent {
		debug.SetGCPercent(set)
		return
	}
	c := &collections{last: time.Now(), percent: usualPercent, set: debug.SetGCPercent}
	c.await()
})

// collections is what is known of the last one.
type collections struct {
	last    time.Time
	percent int // that is set
	set     func(percent int) int
}

// sentinel is an object that nobody holds.
type sentinel struct{ of *collections }

// await has heard be called after the next collection.
func (c *collections) await() {
	runtime.SetFinalizer(&sentinel{c}, func(s *sentinel) {
		s.of.heard(time.Now(), live())
		s.of.await()
	})
}

func (c *collections) heard(now time.Time, live uint64) {
	percent := percentFor(now.Sub(c.last), live)
	c.last = now
	if percent != c.percent {
		c.set(percent)
		c.percent = percent
	}
}

// percentFor is what may gather until the next collection, in percent of what is
// held, after one that came so long after the one before.
func percentFor(since time.Duration, live uint64) int {
	if since >= restful {
		return usualPercent
	}
	const step = 50 // what is held differs a little each time
	return int(min(max(usualPercent, usualPercent*garbage/max(live, 1)/step*step), mostPercent))
}

// live is how much the last collection found in use.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return garbage
	}
	return s[0].Value.Uint64()
}
