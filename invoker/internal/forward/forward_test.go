package forward

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// table has n invokers that take work, with the same backlog.
func table(n int) *Table {
	var all []int
	for i := range n {
		all = append(all, i)
	}
	t := New(all...)
	t.Read(0)
	t.Read(fresh / 2)
	t.Read(fresh - 1)
	t.Read(fresh)
	for i := range n {
		t.Reported(fresh, Report{Invoker: i, Enabled: true, GPU: true})
	}
	return t
}

func choose(t *testing.T, at *Table, function string) int {
	t.Helper()
	n, ok := at.Choose(fresh, "guest", function, -1)
	check.That(t, ok, "no invoker takes %s", function)
	return n
}

// Functions spread over invokers evenly, stay where they are, and leave only an invoker
// that is gone.
func TestFunctionsKeepTheirHome(t *testing.T) {
	const hosts, functions = 16, 16000
	homes, count := map[string]int{}, map[int]int{}
	for i := range functions {
		name := fmt.Sprint("f", i)
		homes[name] = choose(t, table(hosts), name)
		count[homes[name]]++
	}
	for n := range hosts {
		check.AtLeast(t, count[n], 850, "functions of invoker %d", n)
		check.AtMost(t, count[n], 1150, "functions of invoker %d", n)
	}
	gone := table(hosts)
	gone.Reported(fresh, Report{Invoker: 3, Enabled: false, GPU: true})
	for name, home := range homes {
		now := choose(t, gone, name)
		check.That(check.Must(t), now == home || home == 3 && now != 3, "%s moved from %d to %d", name, home, now)
	}
}

// An invoker with more work than the mean loses functions, more of them the more it has,
// and all beyond the bound; they go to at most Choices invokers in all.
func TestBacklogMovesFunctions(t *testing.T) {
	const hosts = 8
	homeOf := func(backlog time.Duration) (left, all int) {
		t.Helper()
		busy := table(hosts)
		busy.Reported(fresh, Report{Invoker: 0, Enabled: true, GPU: true, Backlog: backlog})
		for i := range 4000 {
			name := fmt.Sprint("f", i)
			if choose(t, table(hosts), name) != 0 {
				continue
			}
			all++
			if choose(t, busy, name) != 0 {
				left++
			}
		}
		return left, all
	}
	before := 0
	for _, backlog := range []time.Duration{0, 20 * time.Second, 40 * time.Second, 60 * time.Second} {
		left, all := homeOf(backlog)
		check.AtLeast(t, left, before, "left at %s", backlog)
		check.That(t, backlog == 0 || left > before, "none more left at %s", backlog)
		check.That(t, backlog != time.Minute || left > all*7/10, "%d of %d left at %s", left, all, backlog)
		before = left
	}
	left, all := homeOf(90 * time.Second) // above twice the mean of 11.25 s and a minute
	check.Equal(t, left, all)
	// Where all that may take a function have too much, the one with the least does.
	full := table(hosts)
	seen := map[int]bool{}
	for range hosts {
		n := choose(t, full, "f")
		if seen[n] {
			break
		}
		seen[n] = true
		full.Reported(fresh, Report{Invoker: n, Enabled: true, GPU: true, Backlog: time.Hour + time.Duration(len(seen))*time.Minute})
	}
	check.AtMost(t, len(seen), choices)
}

// TestLoadedInvokerBecomesTheHomeOfFewerFunctions: weights follow the backlogs within bounds,
// and the other functions stay at their homes.
func TestLoadedInvokerBecomesTheHomeOfFewerFunctions(t *testing.T) {
	const hosts, functions = 4, 4000
	at := table(hosts)
	now := time.Duration(fresh)
	share := func() (count [hosts]int, homes []int) {
		for i := range functions {
			n, ok := at.Choose(now, "guest", fmt.Sprint("f", i), -1)
			check.That(check.Must(t), ok)
			count[n]++
			homes = append(homes, n)
		}
		return count, homes
	}
	learn := func(d, backlog time.Duration) {
		for end := now + d; now < end; {
			now += time.Second
			for n := range hosts {
				r := Report{Invoker: n, Enabled: true, GPU: true, Backlog: 10 * time.Second}
				if n == 0 {
					r.Backlog = backlog
				}
				at.Reported(now, r)
			}
		}
		at.Reported(now, Report{Invoker: 0, Enabled: true, GPU: true, Backlog: 10 * time.Second})
	}
	before, old := share()
	learn(5*time.Minute, 60*time.Second)
	after, homes := share()
	check.AtMost(t, after[0], before[0]*3/4, "functions of the loaded invoker")
	check.AtLeast(t, after[0], before[0]/4, "functions of the loaded invoker")
	moved := 0
	for i := range homes {
		if homes[i] != old[i] && old[i] != 0 {
			moved++
		}
	}
	check.AtMost(t, moved, functions/100, "functions of other invokers moved")
	learn(24*time.Hour, 60*time.Second)
	least, _ := share()
	check.AtLeast(t, least[0], functions/hosts/20, "after a day with too much work")
	learn(24*time.Hour, 0)
	most, _ := share()
	check.AtLeast(t, most[0], before[0]*2, "after a day with too little work")
	check.AtMost(t, most[0], functions*19/20, "after a day with too little work")
}

// Only invokers that live, are enabled and have a GPU take work, and never the caller.
func TestCandidates(t *testing.T) {
	good := Report{Invoker: 1, Enabled: true, GPU: true}
	for _, c := range []struct {
		why    string
		report Report
		after  time.Duration
		except int
		ok     bool
	}{
		{"takes work", good, 0, -1, true},
		{"has just pinged", good, fresh - 1, -1, true},
		{"is silent", good, fresh, -1, false},
		{"is disabled", Report{Invoker: 1, GPU: true}, 0, -1, false},
		{"lost its GPU", Report{Invoker: 1, Enabled: true}, 0, -1, false},
		{"is not named", Report{Invoker: 2, Enabled: true, GPU: true}, 0, -1, false},
		{"is the caller", good, 0, 1, false},
	} {
		at := New(1)
		at.Reported(time.Minute, c.report)
		n, ok := at.Choose(time.Minute+c.after, "guest", "f", c.except)
		check.Equal(t, ok, c.ok, "an invoker that %s", c.why)
		check.That(t, !ok || n == 1, "an invoker that %s", c.why)
		status := at.Statuses(time.Minute + c.after)[0]
		check.Equal(t, status.Refuses == "", ok || c.except == 1, "an invoker that %s: %s", c.why, status.Refuses)
	}
}

// A missing invoker counts as dead when pings were read for as long as it may be silent.
// An interruption of the reading begins that anew.
func TestSettled(t *testing.T) {
	at := New(1)
	check.That(t, !at.Settled(time.Hour), "before anything is read")
	for s := range 10 {
		at.Read(time.Duration(s) * time.Second)
		check.That(t, !at.Settled(time.Duration(s)*time.Second), "after %d s", s)
	}
	at.Read(fresh)
	check.That(t, at.Settled(fresh))
	check.That(t, !at.Settled(fresh+readPause), "while nothing is read")
	at.Read(fresh + readPause)
	check.That(t, !at.Settled(fresh+readPause), "after an interruption")
}
