package gpucheck

import (
	"fmt"
	"math"
)

const swapRounds = 6

// bandwidth is the speed of copies or moves each way, in GB/s.
type bandwidth struct{ in, out []float64 }

// add adds a measurement without the shim.
func (b *bandwidth) add(bytes int64, a answer) {
	b.in, b.out = append(b.in, rate(bytes, a.In)), append(b.out, rate(bytes, a.Out))
}

// swap moves a program's block out and in and returns the number of wrong words. left, if
// it is given, is called while the block is out.
func (t *trial) swap(p *program, bytes int64, speed *bandwidth, left func(out int64)) int64 {
	out := t.evict(p)
	speed.out = append(speed.out, rate(out.Moved, out.Took))
	if left != nil {
		left(out.Moved)
	}
	in := t.prefetch(p)
	speed.in = append(speed.in, rate(in.Moved, in.Took))
	if out.Moved < bytes || in.Moved < bytes {
		fail("%s went out and %s came in of a block of %s", size(out.Moved), size(in.Moved), size(bytes))
	}
	return wrongWords(p)
}

// left is the memory that was free after evictions of a block.
type left struct {
	least, leastNVML float64 // share of the block; leastNVML is infinite if NVML does not report it
	onHost           bool    // by the driver, the block was last sent to the host
	asked, given     bool    // another process asked for the memory beyond the free memory, and got it
}

// checkSwap moves one large block out and in. Two witnesses observe whether it left, and a
// kernel verifies every word. The speed is compared in turns with copies of pinned memory,
// which are the yardstick, and with the driver's own moves without the shim.
func checkSwap(t *trial) {
	bytes := t.fit(min(t.s.Swap, t.device.Free*4/10))
	part := min(bytes, 1<<30)
	t.take(bytes + 2*part + t.contextBytes())
	table := t.table(fmt.Sprintf("%s, chunks of 64 MiB", size(bytes)), "round", "order", "GB/s", "in use by cuMemGetInfo", "by NVML")
	p, bare := t.filled(bytes, 7), t.worker(false)
	onOneCore(p, bare)
	// row returns how full the device is by cuMemGetInfo and by NVML.
	row := func(round, order, speed string) (driver, byNVML int64) {
		a := p.ask("info")
		driver, byNVML = a.Total-a.Free, t.used()
		table.row(round, order, speed, size(driver), known(byNVML, size(byNVML)))
		return driver, byNVML
	}
	without := func() (moves, copies answer) { return bare.ask("move %d", part), bare.ask("copy %d", part) }
	without() // allocates before the use of the device is measured
	l := left{least: math.Inf(1), leastNVML: math.Inf(1)}
	full, fullNVML := row("", "filled", "")
	var copied, moved, shim bandwidth
	wrong := int64(0)
	for i := range swapRounds {
		moves, copies := without()
		moved.add(part, moves)
		copied.add(part, copies)
		wrong += t.swap(p, bytes, &shim, func(int64) {
			empty, emptyNVML := row(fmt.Sprint(i+1), "evict", gbs(shim.out[i]))
			l.least = min(l.least, float64(full-empty)/float64(bytes))
			if fullNVML >= 0 && emptyNVML >= 0 {
				l.leastNVML = min(l.leastNVML, float64(fullNVML-emptyNVML)/float64(bytes))
			}
			l.onHost = p.ask("where %d", p.block).Location == -1
		})
		full, fullNVML = row(fmt.Sprint(i+1), "prefetch", gbs(shim.in[i]))
	}
	bare.end(endTime) // its memory could be taken in the place of the block
	if t.s.Reclaim && l.least < t.s.Goals.Left {
		l.asked, l.given = true, t.reclaim(p, bytes)
	}
	t.evict(p)
	last := p.verify()
	faulted := gbs(rate(bytes, last.NS))
	row("", "faults", faulted)
	t.none(fmt.Sprintf("wrong words after %d swaps of %s", swapRounds+1, size(bytes)), wrong+last.Mismatches)
	t.judgeLeft(l)
	t.judgeSpeed("out", shim.out, moved.out, copied.out)
	t.judgeSpeed("in", shim.in, moved.in, copied.in)
	t.remark("The first way out creates the host's pages. A kernel that faulted everything in did so at %s GB/s.", faulted)
}

// reclaim moves the block out and lets another process ask for that memory beyond the free
// memory. The driver gives it only if nothing of the block is left on the device.
func (t *trial) reclaim(p *program, bytes int64) (given bool) {
	t.evict(p)
	other := t.worker(false)
	defer other.end(endTime)
	given = other.ask("take %d", other.ask("info").Free+bytes-bytes/20).Took == 1
	t.prefetch(p)
	return given
}

// judgeSpeed compares the speed of a block with copies of pinned memory at the same time.
// The first way out is judged apart: it creates the host's pages, and is the only one of a
// short-lived container.
func (t *trial) judgeSpeed(way string, shim, driver, copies []float64) {
	var ratio []float64
	for i, v := range shim {
		ratio = append(ratio, share(v, copies[i]))
	}
	goal := t.s.Goals.Swap
	for _, part := range []struct {
		name     string
		from, to int
	}{{" the first time", 0, 1}, {"", 1, len(shim)}} {
		v, beside := median(ratio[part.from:part.to]), ""
		if driver != nil {
			beside = fmt.Sprintf(", the driver's own moves at %s GB/s", gbs(median(driver[part.from:part.to])))
		}
		t.judge(fmt.Sprintf("swap %s%s at %s GB/s, pinned copies at %s GB/s%s", way, part.name,
			gbs(median(shim[part.from:part.to])), gbs(median(copies[part.from:part.to])), beside),
			v, "share", fmt.Sprintf("at least %s of pinned copies", percent(goal)), v >= goal)
	}
}

// judgeLeft finds out whether the block's memory was free for others. The driver may keep
// the emptied pages until another process asks for them, and count them as used. Then the
// question is whether the other process gets them.
func (t *trial) judgeLeft(l left) {
	least := t.s.Goals.Left
	goal := "at least " + percent(least)
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
		t.remark("Another process got plain memory in the place of the block that had left, beyond the free memory.")
	case l.asked:
		t.remark("Another process did not get plain memory in the place of the block that had left.")
	case l.least < least && l.onHost:
		t.remark("By the driver, the block was last sent to the host. The driver may have kept the emptied pages until they are asked for; --reclaim asks.")
	}
}

// checkFresh measures the first touch of fresh memory: a kernel writes a block that nothing
// has written before, once with plain memory and once with managed memory.
func checkFresh(t *trial) {
	bytes := t.fit(min(1<<30, t.s.Swap, t.device.Free/20))
	t.take(2 * (bytes + t.contextBytes()))
	table := t.table(fmt.Sprintf("Blocks of %s, medians of %d fresh ones, GB/s", size(bytes), t.s.Rounds),
		"memory", "first write", "second write", "first way out", "later way out")
	wrong, first := int64(0), map[bool]float64{}
	for _, managed := range []bool{false, true} {
		p := t.worker(managed)
		var writes [2][]float64
		var moves [2]bandwidth
		for range t.s.Rounds {
			p.block = p.ask("alloc %d", bytes).Block
			for i := range writes {
				writes[i] = append(writes[i], rate(bytes, p.ask("fill %d %d", p.block, i+1).NS))
			}
			for i := range moves {
				if managed {
					wrong += t.swap(p, bytes, &moves[i], nil)
				}
			}
			p.ask("free %d", p.block)
		}
		first[managed] = median(writes[0])
		table.row(pick(managed, "managed, under the shim", "plain, without the shim"), gbs(first[managed]), gbs(median(writes[1])),
			pick(managed, gbs(median(moves[0].out)), ""), pick(managed, gbs(median(moves[1].out)), ""))
	}
	t.none("wrong words after moves of fresh blocks", wrong)
	t.remark("A kernel's first write of managed memory takes %.1f times as long as of plain memory. A fresh block is one page fault after another.",
		share(first[false], first[true]))
}

// largeBytes is more than 8 GiB, so that a size in 32 bits, or in a signed number of pages,
// would be found.
const largeBytes = 12 << 30

func checkLarge(t *trial) {
	bytes, part := t.fit(pick(t.fake(), 3*t.s.Swap, min(largeBytes, t.device.Free/2))), min(int64(1<<30), t.s.Swap)
	if !t.fake() && bytes <= 8<<30 {
		skip("card and host have room for %s only", size(bytes))
	}
	t.take(bytes + part + 2*t.contextBytes())
	p, bare := t.filled(bytes, 17), t.worker(false)
	onOneCore(p, bare)
	var copied, shim bandwidth
	wrong := int64(0)
	for range 3 {
		copied.add(part, bare.ask("copy %d", part))
		wrong += t.swap(p, bytes, &shim, nil)
	}
	t.none(fmt.Sprintf("wrong words after 3 swaps of %s", size(bytes)), wrong)
	t.judgeSpeed("out", shim.out, nil, copied.out)
	t.judgeSpeed("in", shim.in, nil, copied.in)
	if t.fake() {
		t.remark("On the fake driver a smaller block stands for it.")
	}
}

// checkGraph replays a graph that was recorded before its memory moved.
func checkGraph(t *trial) {
	bytes := t.fit(min(1<<30, t.s.Swap, t.device.Free/20))
	t.take(bytes + t.contextBytes())
	p := t.filled(bytes, 19)
	for range 2 { // the second graph is recorded of memory that has moved
		t.none("wrong words after replays of a graph across moves", t.swapGraph(p, true))
	}
}

// swapGraph records a pass, moves the memory and replays the graph. The addresses in the
// graph must stay valid. If faulting is set, a replay also faults the memory in.
func (t *trial) swapGraph(p *program, faulting bool) (wrong int64) {
	p.ask("graph %d", p.block)
	t.evict(p)
	if faulting {
		p.running("replay %d 3", p.block)
		t.evict(p)
	}
	t.prefetch(p)
	p.running("replay %d 2", p.block)
	return wrongWords(p)
}

// checkVMM compares the two ways to move memory: managed memory, and mapped handles whose
// bytes are copied (whisk.gpu.memory). Handles must be back before a kernel runs, so nothing
// is faulted in here.
func checkVMM(t *trial) {
	bytes, part := t.fit(min(t.s.Swap, t.device.Free/5)), min(int64(1<<30), t.s.Swap)
	t.take(2*bytes + part + 3*t.contextBytes())
	table := t.table(fmt.Sprintf("%s, medians of %d rounds, GB/s", size(bytes), swapRounds),
		"memory", "first out", "out", "in", "free after an eviction, by cuMemGetInfo", "wrong words")
	bare := t.worker(false)
	for _, memory := range []string{"managed", "vmm"} {
		p := t.worker(true, "GPUWHISK_SHIM="+memory)
		p.fill(bytes, 37)
		onOneCore(p, bare)
		var copied, shim bandwidth
		wrong, free := int64(0), math.Inf(1)
		for range swapRounds {
			copied.add(part, bare.ask("copy %d", part))
			full := bare.ask("info").Free
			wrong += t.swap(p, bytes, &shim, func(int64) { free = min(free, float64(bare.ask("info").Free-full)/float64(bytes)) })
		}
		wrong += t.swapGraph(p, false)
		table.row(memory, gbs(shim.out[0]), gbs(median(shim.out[1:])), gbs(median(shim.in)), percent(free), wrong)
		t.none("wrong words with "+memory, wrong)
		if memory == "vmm" {
			t.judge("of a block free after an eviction with vmm", free, "share", "at least "+percent(t.s.Goals.Left), free >= t.s.Goals.Left)
			t.judgeSpeed("out by vmm", shim.out, nil, copied.out)
			t.judgeSpeed("in by vmm", shim.in, nil, copied.in)
		}
		p.end(endTime)
	}
}
