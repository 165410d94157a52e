package process

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestLeaderOf(t *testing.T) {
	stats := map[int]stat{
		1: {}, 100: {parent: 1, session: 100}, 101: {parent: 100, session: 100}, // leader, child
		102: {parent: 101, session: 102}, 103: {parent: 102, session: 102}, // left the session
		104: {parent: 1, session: 104},                                 // a stranger
		105: {parent: 106, session: 5}, 106: {parent: 105, session: 5}, // a cycle of parents
	}
	for pid, want := range map[int]int{1: 0, 100: 100, 101: 100, 102: 100, 103: 100, 104: 0, 105: 0, 999: 0} {
		check.Equal(t, leaderOf(pid, stats, map[int]bool{100: true}), want, "%d", pid)
	}
}

func TestFamilies(t *testing.T) {
	f := start(t, nil)
	h := f.create()
	f.mustRun(h.Addr, wish{Sleepers: 2})
	c := f.find(h.ID)
	family := families([]*child{c})[c.pid]
	check.Equal(t, len(family), 3)
	check.Includes(t, family, c.pid)
}

// TestGuardRests: without a running container the guard checks nothing.
func TestGuardRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		g := newGuard(func() []*child { tries++; return nil }, 0, nil)
		<-time.After(time.Hour)
		g.close()
		check.Equal(t, tries, 1, "looks in an hour")
	})
}
