package process

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// allocRate is how fast a process is taken to fill memory, in bytes a
	// second. The memory that a container has left, over this rate, is when it
	// must be checked again.
	allocRate = 1 << 30
	minCheck  = 10 * time.Millisecond
	farthest  = 500 * time.Millisecond
	// Looking through all processes costs milliseconds. It is done soon when
	// many were started on this machine, and in its time when a few were.
	many       = 200
	soonCount  = 100 * time.Millisecond
	laterCount = 2 * time.Second
)

// guard ends containers that use more memory, or more processes, than they
// may. It owns one goroutine, which sleeps while nothing runs.
type guard struct {
	children  func() []*child
	pidsLimit int
	log       *slog.Logger
	family    map[int][]int // pids by leader, as last seen
	newest    int           // the newest pid at that time
	counted   time.Time
	wakes     chan struct{} // capacity 1: one reminder is enough
	stop      chan struct{}
	wg        sync.WaitGroup
}

func newGuard(children func() []*child, pidsLimit int, log *slog.Logger) *guard {
	g := &guard{
		children: children, pidsLimit: pidsLimit, log: log,
		wakes: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	g.wg.Go(g.run)
	return g
}

// wake notifies the guard that there is something to check.
func (g *guard) wake() {
	select {
	case g.wakes <- struct{}{}:
	default:
	}
}

func (g *guard) close() {
	close(g.stop)
	g.wg.Wait()
}

func (g *guard) run() {
	timer := time.NewTimer(farthest)
	defer timer.Stop()
	for {
		next, some := g.checkAll()
		var due <-chan time.Time
		if some {
			timer.Reset(next)
			due = timer.C
		}
		select {
		case <-due:
		case <-g.wakes:
		case <-g.stop:
			return
		}
	}
}

// checkAll checks every running container. It returns when to check again, and
// whether there is any to check.
func (g *guard) checkAll() (time.Duration, bool) {
	next := farthest
	var running []*child
	for _, c := range g.children() {
		if c.watched() {
			running = append(running, c)
		}
	}
	if len(running) > 0 {
		g.count(running)
	}
	for _, c := range running {
		next = min(next, g.check(c))
	}
	return max(next, minCheck), len(running) > 0
}

// check ends a container that is over a limit, or returns when it could be.
func (g *guard) check(c *child) time.Duration {
	pids := g.family[c.pid]
	if g.pidsLimit > 0 && len(pids) > g.pidsLimit {
		g.log.Warn("end process for its number of children", "container", c.id, "limit", g.pidsLimit)
		c.kill(false)
		return farthest
	}
	if c.limit <= 0 {
		return farthest
	}
	var used int64
	for _, pid := range pids {
		used += privateBytes(pid)
	}
	if used > c.limit {
		g.log.Warn("end process for its memory", "container", c.id, "bytes", used, "limit", c.limit)
		c.kill(true)
		return farthest
	}
	return time.Duration(float64(c.limit-used) / allocRate * float64(time.Second))
}

// count finds out which processes belong to which container: those of its
// session, and their descendants that left it. That is dear, so it is done
// again only when something was started on this machine, and not at each check.
func (g *guard) count(running []*child) {
	newest, since := newestPID(), time.Since(g.counted)
	started := newest - g.newest
	if started < 0 {
		started = many // the numbers began anew
	}
	due := started > 0 && since >= laterCount || started >= many && since >= soonCount
	unknown := slices.ContainsFunc(running, func(c *child) bool { return len(g.family[c.pid]) == 0 })
	if !unknown && !due {
		return
	}
	g.newest, g.counted = newest, time.Now()
	g.family = families(running)
}

func families(running []*child) map[int][]int {
	leaders := map[int]bool{}
	for _, c := range running {
		leaders[c.pid] = true
	}
	stats := map[int]stat{}
	for _, pid := range allPIDs() {
		if s, err := readStat(pid); err == nil && !s.zombie {
			stats[pid] = s
		}
	}
	family := map[int][]int{}
	for pid := range stats {
		if leader := leaderOf(pid, stats, leaders); leader != 0 {
			family[leader] = append(family[leader], pid)
		}
	}
	return family
}

// leaderOf climbs from a process to the container it belongs to, 0 for none.
func leaderOf(pid int, stats map[int]stat, leaders map[int]bool) int {
	for range len(stats) { // a chain of parents is not longer
		s, ok := stats[pid]
		if !ok {
			return 0
		}
		if leaders[s.session] {
			return s.session
		}
		pid = s.parent
	}
	return 0
}
