// Package goheap has Go's memory suit a program that works in bursts and holds
// some MiB: while there is work it collects its garbage less often and lies on
// huge pages, at rest the memory goes back to the system. It is told of each
// collection by Go, starts no goroutine, and decides by nothing else.
package goheap

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// restful is a time between two collections that tells that there is no work.
// Go collects every two minutes at the latest.
const restful = time.Minute

// Tune has the heap of this process tuned from the next collection on. Who set
// GOGC keeps it. Called again it does nothing.
var Tune = sync.OnceFunc(func() {
	t := &tuner{last: time.Now(), garbage: &garbage{percent: usualPercent, set: debug.SetGCPercent}, pages: &pages{maps: ownMaps, advise: madvise}}
	if set := debug.SetGCPercent(usualPercent); set != usualPercent {
		debug.SetGCPercent(set)
		t.garbage = nil
	}
	t.await()
})

// tuner is what is known of the last collection.
type tuner struct {
	last    time.Time
	garbage *garbage // nil: it is somebody else's
	pages   *pages
}

// sentinel is an object that nobody holds.
type sentinel struct{ of *tuner }

// await has heard be called after the next collection.
func (t *tuner) await() {
	runtime.SetFinalizer(&sentinel{t}, func(s *sentinel) {
		s.of.heard(time.Now(), read())
		s.of.await()
	})
}

func (t *tuner) heard(now time.Time, m memory) {
	rests := now.Sub(t.last) >= restful
	t.last = now
	if t.garbage != nil {
		t.garbage.suit(rests, m.live)
	}
	t.pages.suit(rests, m.mapped)
}

func ownMaps() ([]byte, error) { return os.ReadFile("/proc/self/maps") }
