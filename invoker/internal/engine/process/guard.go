package process

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// allocRate is the assumed speed at which a process fills memory, in bytes per
	// second. The free memory of a container, divided by this rate, is the time until
	// the next check.
	allocRate = 1 << 30
	minCheck  = 10 * time.Millisecond
	farthest  = 500 * time.Millisecond
	// Scanning all processes costs milliseconds. It is repeated soon after many
	// processes were started on this machine, and later after only a few.
	many       = 200
	soonCount  = 100 * time.Millisecond
	laterCount = 2 * time.Second
)

// guard kills containers that exceed their limit of memory or processes. It owns one
// goroutine, which sleeps while nothing runs.
type guard struct {
	children  func() []*child
	pidsLimit int
	log       *slog.Logger
	family    map[int][]int // pids by leader, from the last scan
	newest    int           // newest pid at the last scan
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

// wake tells the guard that there are containers to check.
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

// checkAll checks every running container. It returns the time until the next check, and
// whether there are containers to check.
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

// check kills a container that exceeds a limit. Otherwise it returns the earliest time
// at which the container could exceed it.
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

// count assigns processes to containers: the processes of the container's session, and
// descendants that left the session. The scan is expensive, so it is repeated only after
// processes were started on this machine, not at each check.
func (g *guard) count(running []*child) {
	newest, since := newestPID(), time.Since(g.counted)
	started := newest - g.newest
	if started < 0 {
		started = many // the numbers have wrapped around
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

// leaderOf follows the parents of a process to its container's leader. It returns 0 if
// there is none.
func leaderOf(pid int, stats map[int]stat, leaders map[int]bool) int {
	for range len(stats) { // no chain of parents is longer
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
