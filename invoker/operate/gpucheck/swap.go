package gpucheck

import (
	"fmt"
	"math"
	"time"
)

const swapRounds = 4

// bandwidth is the speed of copies or moves each way, in GB/s.
type bandwidth struct{ in, out []float64 }

// copies measures plain copies between pinned memory and the device, in a process
// without the shim, and adds them to those before.
func (t *trial) copies(bytes int64, b *bandwidth) {
	p := t.worker(false)
	defer p.end(endTime)
	a := p.ask("copy %d 5", bytes)
	for _, ns := range a.In {
		b.in = append(b.in, rate(bytes, time.Duration(ns)))
	}
	for _, ns := range a.Out {
		b.out = append(b.out, rate(bytes, time.Duration(ns)))
	}
}

// swapped is what came of the rounds of one block. The first one makes the host's
// pages and does not count.
type swapped struct {
	bandwidth
	wrong          int64
	left, leftNVML float64 // the least share that was free after an eviction
	onHost         bool    // by the driver: it last sent the block there
	asked, given   bool    // by another process, beyond what counted as free
}

// checkSwap moves one large block out and in, observes by two witnesses that it left,
// verifies every word, and compares its speed with copies of pinned memory in the
// same minute.
func checkSwap(t *trial) {
	bytes := t.fit(min(t.s.Swap, t.device.Free*4/10))
	pinned := min(bytes, 1<<30)
	t.take(bytes + pinned)
	var copies bandwidth
	t.copies(pinned, &copies)
	table := t.table(fmt.Sprintf("%s, chunks of 64 MiB", size(bytes)),
		"round", "order", "moved", "GB/s", "in use by cuMemGetInfo", "by NVML")
	p := t.filled(bytes, 7)
	// row adds an order that was carried out, and returns how full the device is by
	// cuMemGetInfo and by NVML, which may not report it.
	row := func(round, order string, moved int64, speed string) (driver, byNVML int64) {
		a := p.ask("info")
		driver, byNVML = a.Total-a.Free, -1
		text := "unknown"
		if used, ok := t.used(); ok {
			byNVML, text = used, size(used)
		}
		table.row(round, order, size(moved), speed, size(driver), text)
		return driver, byNVML
	}
	s := swapped{left: math.Inf(1), leftNVML: math.Inf(1)}
	full, fullNVML := row("", "filled", bytes, "")
	for i := range swapRounds {
		out := t.evict(p)
		s.out = append(s.out, rate(out.Moved, out.Took))
		empty, emptyNVML := row(fmt.Sprint(i+1), "evict", out.Moved, gbs(s.out[i]))
		s.left = min(s.left, float64(full-empty)/float64(bytes))
		if fullNVML >= 0 && emptyNVML >= 0 {
			s.leftNVML = min(s.leftNVML, float64(fullNVML-emptyNVML)/float64(bytes))
		}
		s.onHost = p.ask("where %d", p.block).Location == -1
		in := t.prefetch(p)
		s.in = append(s.in, rate(in.Moved, in.Took))
		full, fullNVML = row(fmt.Sprint(i+1), "prefetch", in.Moved, gbs(s.in[i]))
		if out.Moved < bytes || in.Moved < bytes {
			fail("round %d: %s went out and %s came in of a block of %s", i+1, size(out.Moved), size(in.Moved), size(bytes))
		}
		s.wrong += wrongWords(p)
	}
	if t.s.Reclaim && s.left < t.s.Goals.Left {
		s.asked, s.given = true, t.reclaim(p, bytes)
	}
	t.evict(p)
	last := p.verify()
	s.wrong += last.Mismatches
	faulted := gbs(rate(bytes, time.Duration(last.NS)))
	row("", "faults", bytes, faulted)
	p.end(endTime) // its memory is for the copies
	t.copies(pinned, &copies)
	t.none(fmt.Sprintf("wrong words after %d swaps of %s", swapRounds+1, size(bytes)), s.wrong)
	t.judgeLeft(s)
	t.judgeSpeed("out", s.out, copies.out)
	t.judgeSpeed("in", s.in, copies.in)
	t.remark("The first round, in which the host's pages are made, is not judged: %s GB/s out, %s GB/s in. A kernel that faulted everything in did so at %s GB/s.",
		gbs(s.out[0]), gbs(s.in[0]), faulted)
}

// reclaim moves the block out and has another process ask for that memory beyond
// what counts as free: it gets it only if nothing of the block is left there.
func (t *trial) reclaim(p *program, bytes int64) (given bool) {
	t.evict(p)
	other := t.worker(false)
	defer other.end(endTime)
	given = other.ask("take %d", other.ask("info").Free+bytes-bytes/20).Took == 1
	t.prefetch(p)
	return given
}

func (t *trial) judgeSpeed(way string, moves, copies []float64) {
	moved, copied, goal := median(moves[1:]), median(copies), t.s.Goals.Swap
	v := share(moved, copied)
	t.judge(fmt.Sprintf("swap %s at %s GB/s, pinned copies at %s GB/s", way, gbs(moved), gbs(copied)),
		v, "share", fmt.Sprintf("at least %s of pinned copies", percent(goal)), v >= goal)
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
		t.remark("NVML does not report how full the card is (%s).", t.witness)
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
