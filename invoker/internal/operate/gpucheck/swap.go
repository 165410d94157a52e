package gpucheck

import (
	"fmt"
	"math"
)

const swapRounds = 6

// bandwidth is the speed of copies or moves each way, in GB/s.
type bandwidth struct{ in, out []float64 }

func (b *bandwidth) add(bytes int64, a answer) {
	b.in, b.out = append(b.in, rate(bytes, a.In)), append(b.out, rate(bytes, a.Out))
}

// left is what was free after evictions of a block.
type left struct {
	least, leastNVML float64 // share of the block; leastNVML is infinite where NVML does not report it
	onHost           bool    // by the driver: it last sent the block there
	asked, given     bool    // by another process, beyond what counted as free
}

// checkSwap moves one large block out and in, observes by two witnesses that it left,
// verifies every word, and compares its speed in turns with copies of pinned memory, which
// are the yardstick, and with the driver's own moves without the shim.
func checkSwap(t *trial) {
	bytes := t.fit(min(t.s.Swap, t.device.Free*4/10))
	part := min(bytes, 1<<30)
	t.take(bytes + 2*part + t.contextBytes())
	table := t.table(fmt.Sprintf("%s, chunks of 64 MiB", size(bytes)),
		"round", "order", "moved", "GB/s", "in use by cuMemGetInfo", "by NVML")
	p, bare := t.filled(bytes, 7), t.worker(false)
	onOneCore(p, bare)
	// row adds an order that was carried out, and returns how full the device is by
	// cuMemGetInfo and by NVML.
	row := func(round, order string, moved int64, speed string) (driver, byNVML int64) {
		a := p.ask("info")
		driver, byNVML = a.Total-a.Free, t.used()
		table.row(round, order, size(moved), speed, size(driver), known(byNVML, size(byNVML)))
		return driver, byNVML
	}
	t.judgeListed(p, bytes)
	l := left{least: math.Inf(1), leastNVML: math.Inf(1)}
	without := func() (moves, copies answer) { return bare.ask("move %d", part), bare.ask("copy %d", part) }
	without() // allocates, before it is measured what is in use
	full, fullNVML := row("", "filled", bytes, "")
	var copied, moved, shim bandwidth
	wrong := int64(0)
	for i := range swapRounds {
		moves, copies := without()
		moved.add(part, moves)
		copied.add(part, copies)
		out := t.evict(p)
		shim.out = append(shim.out, rate(out.Moved, out.Took))
		empty, emptyNVML := row(fmt.Sprint(i+1), "evict", out.Moved, gbs(shim.out[i]))
		l.least = min(l.least, float64(full-empty)/float64(bytes))
		if fullNVML >= 0 && emptyNVML >= 0 {
			l.leastNVML = min(l.leastNVML, float64(fullNVML-emptyNVML)/float64(bytes))
		}
		l.onHost = p.ask("where %d", p.block).Location == -1
		in := t.prefetch(p)
		shim.in = append(shim.in, rate(in.Moved, in.Took))
		full, fullNVML = row(fmt.Sprint(i+1), "prefetch", in.Moved, gbs(shim.in[i]))
		if out.Moved < bytes || in.Moved < bytes {
			fail("round %d: %s went out and %s came in of a block of %s", i+1, size(out.Moved), size(in.Moved), size(bytes))
		}
		wrong += wrongWords(p)
	}
	bare.end(endTime) // what it has could be taken in the place of the block
	if t.s.Reclaim && l.least < t.s.Goals.Left {
		l.asked, l.given = true, t.reclaim(p, bytes)
	}
	t.evict(p)
	last := p.verify()
	faulted := gbs(rate(bytes, last.NS))
	row("", "faults", bytes, faulted)
	t.none(fmt.Sprintf("wrong words after %d swaps of %s", swapRounds+1, size(bytes)), wrong+last.Mismatches)
	t.judgeLeft(l)
	t.judgeSpeed("out", shim.out, moved.out, copied.out)
	t.judgeSpeed("in", shim.in, moved.in, copied.in)
	t.remark("The first way out makes the host's pages. A kernel that faulted everything in did so at %s GB/s.", faulted)
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

// judgeSpeed compares the way of a block with copies of pinned memory at the same time: the
// first one, which makes the host's pages and is the only one of a short-lived container,
// and the later ones.
func (t *trial) judgeSpeed(way string, shim, driver, copies []float64) {
	var ratio []float64
	for i, v := range shim {
		ratio = append(ratio, share(v, copies[i]))
	}
	goal := t.s.Goals.Swap
	judge := func(which string, from, to int) {
		v := median(ratio[from:to])
		t.judge(fmt.Sprintf("swap %s%s at %s GB/s, pinned copies at %s GB/s, the driver's own moves at %s GB/s", way, which,
			gbs(median(shim[from:to])), gbs(median(copies[from:to])), gbs(median(driver[from:to]))),
			v, "share", fmt.Sprintf("at least %s of pinned copies", percent(goal)), v >= goal)
	}
	judge(" the first time", 0, 1)
	judge("", 1, len(shim))
}

// judgeListed finds out whether NVML lists a process's managed memory: the invoker counts
// on that it does not.
func (t *trial) judgeListed(p *program, bytes int64) {
	if listed := t.listed(p.cmd.Process.Pid); listed >= 0 {
		const most = 0.05
		v := share(float64(max(0, listed-cudaContext)), float64(bytes))
		t.judge("of the managed block listed by NVML for its process, without the context", v, "share", "at most "+percent(most), v <= most)
	}
}

// judgeLeft finds out whether the block's memory was free for others. The driver
// may keep the emptied pages for managed memory until they are asked for, and count
// them as used: then what counts is whether it gives them.
func (t *trial) judgeLeft(l left) {
	least := t.s.Goals.Left
	goal := fmt.Sprintf("at least %s", percent(least))
	if l.given {
		goal += ", or given on demand"
	}
	t.judge("of the block free after an eviction, by cuMemGetInfo", l.least, "share", goal, l.given || l.least >= least)
	if math.IsInf(l.leastNVML, 1) {
		t.remark("NVML does not report how full the card is (%s).", t.witness)
	} else {
		t.judge("of the block free after an eviction, by NVML", l.leastNVML, "share", goal, l.given || l.leastNVML >= least)
	}
	switch {
	case l.given:
		t.remark("Another process got plain memory in the place of the block that had left, beyond what counted as free.")
	case l.asked:
		t.remark("Another process did not get plain memory in the place of the block that had left.")
	case l.least < least && l.onHost:
		t.remark("By the driver, the block was last sent to the host. The driver may have kept the emptied pages until they are asked for; --reclaim asks.")
	}
}
