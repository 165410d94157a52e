package gpucheck

import (
	"fmt"
	"math"
	"time"
)

const swapRounds = 4

// checkSwap moves one large block out and in, observes by two witnesses that it left,
// verifies every word, and compares its speed with copies of pinned memory in the
// same minute.
func checkSwap(t *trial) {
	bytes := t.fit(min(t.s.Swap, t.device.Free*4/10))
	pinned := min(bytes, 1<<30)
	t.take(bytes + pinned)
	copies := t.copies(pinned, bandwidth{})
	table := t.table(fmt.Sprintf("%s, chunks of 64 MiB", size(bytes)),
		"round", "order", "moved", "GB/s", "in use by cuMemGetInfo", "by NVML")
	s := t.swap(table, bytes)
	t.judgeSwap(s, t.copies(pinned, copies))
}

// bandwidth is the speed of copies or moves each way, in GB/s.
type bandwidth struct{ in, out []float64 }

// copies measures plain copies between pinned memory and the device, in a process
// without the shim, and adds them to those before.
func (t *trial) copies(bytes int64, b bandwidth) bandwidth {
	p := t.plain()
	defer p.end(endTime)
	a := p.ask("copy %d 5", bytes)
	for i := range a.In {
		b.in = append(b.in, rate(bytes, time.Duration(a.In[i])))
	}
	for i := range a.Out {
		b.out = append(b.out, rate(bytes, time.Duration(a.Out[i])))
	}
	return b
}

// swapped is what came of the rounds of one block. The first one makes the host's
// pages and does not count.
type swapped struct {
	bandwidth
	bytes          int64
	wrong, rounds  int64
	left, leftNVML float64 // the least share that was free after an eviction
	faulted        float64 // GB/s of a kernel that faults all of it in
	onHost         bool    // by the driver: it last sent the block there
	asked, given   bool    // by another process, beyond what counted as free
}

// swap moves a block out and in, round after round, and at last has a kernel fault
// it in.
func (t *trial) swap(table *Table, bytes int64) swapped {
	s := swapped{bytes: bytes, left: math.Inf(1), leftNVML: math.Inf(1)}
	g := t.worker()
	defer g.end(endTime)
	g.fill(bytes, 7)
	t.swapRow(table, g, "", "filled", bytes, "")
	for i := range swapRounds {
		t.swapRound(table, g, i, &s)
	}
	if t.s.Reclaim && s.left < t.s.Goals.Left {
		t.reclaim(g, &s)
	}
	t.evict(g)
	s.faulted = rate(bytes, s.verify(g))
	t.swapRow(table, g, "", "faults", bytes, gbs(s.faulted))
	return s
}

func (t *trial) swapRound(table *Table, g *guest, i int, s *swapped) {
	full := t.used(g.program)
	out := t.evict(g)
	moved := rate(out.Moved, out.Took)
	empty := t.swapRow(table, g, fmt.Sprint(i+1), "evict", out.Moved, gbs(moved))
	s.left = min(s.left, float64(full.driver-empty.driver)/float64(s.bytes))
	if full.nvml >= 0 && empty.nvml >= 0 {
		s.leftNVML = min(s.leftNVML, float64(full.nvml-empty.nvml)/float64(s.bytes))
	}
	s.onHost = g.ask("where %d", g.block).Location == -1
	in := t.prefetch(g)
	back := rate(in.Moved, in.Took)
	t.swapRow(table, g, fmt.Sprint(i+1), "prefetch", in.Moved, gbs(back))
	if out.Moved < s.bytes || in.Moved < s.bytes {
		check(fmt.Errorf("round %d: %s went out and %s came in of a block of %s", i+1, size(out.Moved), size(in.Moved), size(s.bytes)))
	}
	s.out, s.in = append(s.out, moved), append(s.in, back)
	s.verify(g)
}

// verify counts the wrong words of the block, and returns how long that took.
func (s *swapped) verify(g *guest) time.Duration {
	a := g.verify()
	s.wrong += a.Mismatches
	s.rounds++
	return time.Duration(a.NS)
}

// reclaim moves the block out and has another process ask for that memory beyond
// what counts as free: it gets it only if nothing of the block is left there.
func (t *trial) reclaim(g *guest, s *swapped) {
	t.evict(g)
	p := t.plain()
	defer p.end(endTime)
	free := p.ask("info").Free
	s.asked, s.given = true, p.ask("take %d", free+s.bytes-s.bytes/20).Took == 1
	t.prefetch(g)
}

// used is how full the device is, by two witnesses.
type used struct {
	driver int64 // by cuMemGetInfo
	nvml   int64 // negative where NVML does not report it
}

func (t *trial) used(p *program) used {
	a := p.ask("info")
	u := used{driver: a.Total - a.Free, nvml: -1}
	if bytes, ok := t.monitor.used(); ok {
		u.nvml = bytes
	}
	return u
}

// swapRow adds a row on an order that was carried out.
func (t *trial) swapRow(table *Table, g *guest, round, order string, moved int64, speed string) used {
	u := t.used(g.program)
	byNVML := "unknown"
	if u.nvml >= 0 {
		byNVML = size(u.nvml)
	}
	table.row(round, order, size(moved), speed, size(u.driver), byNVML)
	return u
}

func (t *trial) judgeSwap(s swapped, copies bandwidth) {
	goal := t.s.Goals.Swap
	t.none(fmt.Sprintf("wrong words after %d swaps of %s", s.rounds, size(s.bytes)), s.wrong)
	t.judgeLeft(s)
	for _, way := range []struct {
		name         string
		moves, plain []float64
	}{{"out", s.out[1:], copies.out}, {"in", s.in[1:], copies.in}} {
		v := share(median(way.moves), median(way.plain))
		t.judge(fmt.Sprintf("swap %s at %.1f GB/s, pinned copies at %.1f GB/s", way.name, median(way.moves), median(way.plain)),
			v, "share", fmt.Sprintf("at least %s of pinned copies", percent(goal)), v >= goal)
	}
	t.remark("The first round, in which the host's pages are made, is not judged: %.1f GB/s out, %.1f GB/s in. A kernel that faulted everything in did so at %.1f GB/s.",
		s.out[0], s.in[0], s.faulted)
}

// judgeLeft finds out whether the block's memory was free for others. The driver
// may keep the emptied pages for managed memory until they are asked for, and count
// them as used: then what counts is whether it gives them.
func (t *trial) judgeLeft(s swapped) {
	least := t.s.Goals.Left
	goal := fmt.Sprintf("at least %s", percent(least))
	if s.given {
		goal += ", or given on demand"
	}
	t.judge("of the block free after an eviction, by cuMemGetInfo", s.left, "share", goal, s.given || s.left >= least)
	if math.IsInf(s.leftNVML, 1) {
		t.remark("NVML does not report how full the card is (%s).", t.monitor.source)
	} else {
		t.judge("of the block free after an eviction, by NVML", s.leftNVML, "share", goal, s.given || s.leftNVML >= least)
	}
	switch {
	case s.asked && s.given:
		t.remark("Another process got plain memory in the place of the block that had left, beyond what counted as free.")
	case s.asked:
		t.remark("Another process did not get plain memory in the place of the block that had left.")
	case s.left < least && s.onHost:
		t.remark("By the driver, the block was last sent to the host. The driver may have kept the emptied pages until they are asked for; --reclaim asks.")
	}
}

// rate is a bandwidth in GB/s, of 10^9 bytes as is usual for copies.
func rate(bytes int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(bytes) / took.Seconds() / 1e9
}

func gbs(rate float64) string { return fmt.Sprintf("%.1f", rate) }
