package gpucheck

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// holder is a program that holds a block of device memory under the shim.
type holder struct {
	name, module string   // the module is its framework's; empty: worker.c
	env          []string // beside the shim's
	stays        string   // why the block stays on the card; empty: the whole block must move
	vmm          bool     // the block must be back before a kernel runs, so no kernel faults it in
	graphs       int      // graphs of the block that are replayed across a move
	speed, left  bool     // judged: the speed of moves, and the memory that is free after a move
}

// moves is the measurement of the steps on moves: the blocks of programs go out and in, and a
// kernel compares every word. Copies of pinned memory take turns with the moves and are
// their yardstick.
type moves struct {
	bytes  func(*trial) int64 // of the block
	rounds int
	of     []holder
}

// upTo is the size of a block of so many bytes, or of a part of the free memory in percent.
func upTo(most, percent int64) func(*trial) int64 {
	return func(t *trial) int64 { return t.fit(min(t.s.Swap, most, t.device.Free*percent/100)) }
}

// above8GiB is the size of a block that a size in 32 bits, or in a signed number of pages,
// does not hold.
func above8GiB(t *trial) int64 {
	if t.fake() {
		t.remark("On the fake driver a smaller block stands for it.")
		return t.fit(3 * t.s.Swap)
	}
	bytes := t.fit(min(12<<30, t.device.Free/2))
	if bytes <= 8<<30 {
		skip("card and host have room for %s only", size(bytes))
	}
	return bytes
}

// left is the memory that was free after evictions of a block.
type left struct {
	least, leastNVML float64 // share of the block; leastNVML is infinite if NVML does not report it
	asked, given     bool    // another process asked for the memory beyond the free memory, and got it
}

// run measures all programs. They start at once, because frameworks take long to load, and
// hold their blocks one after the other.
func (m moves) run(t *trial) {
	bytes := m.bytes(t)
	if m.of[0].module != "" && !t.hasFrameworks() {
		skip("frameworks need more of a driver than the fake driver has")
	}
	of := slices.DeleteFunc(slices.Clone(m.of), func(h holder) bool { return h.module != "" && !t.imports(h.module) })
	if len(of) == 0 {
		skip("%s imports none of PyTorch, CuPy and JAX", t.s.Python)
	}
	// A comparison by a framework needs as much again in the worst case.
	t.take(bytes*pick(of[0].module == "", int64(1), 2) + min(bytes, 1<<30) + int64(len(of)+1)*t.contextBytes())
	table := t.table(fmt.Sprintf("A block of %s. Speeds in GB/s, medians of %d rounds", size(bytes), m.rounds),
		"memory", "counted", "stays on the card", "first way out", "later ways out", "way in", "pinned copies out", "pinned copies in",
		"free after it left, by cuMemGetInfo", "by NVML", "wrong words", "wrong below a graph")
	programs, errs := make([]*program, len(of)), make([]error, len(of))
	parallel(len(of), max(1, runtime.NumCPU()/2), func(i int) { errs[i] = catch(func() { programs[i] = t.hold(of[i], true) }) })
	for i, h := range of {
		if errs[i] == nil {
			errs[i] = catch(func() { t.moveBlock(table, m, h, programs[i], bytes) })
			programs[i].end(endTime)
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", h.name, errs[i])
		}
	}
	require(errors.Join(errs...))
}

// hold starts the program of a holder. The worker of a framework leaves no compiled files.
func (t *trial) hold(h holder, shim bool) *program {
	args := []string{t.path("check/worker")}
	if h.module != "" {
		args = []string{t.s.Python, "-B", t.path("check/" + h.module + "_worker.py")}
	}
	return t.start(h.name, args, shim, h.env...)
}

// moveBlock fills a block, moves it, and adds its row and its findings.
func (t *trial) moveBlock(table *Table, m moves, h holder, p *program, bytes int64) {
	bare, part := t.worker(false), min(bytes, 1<<30)
	if h.module == "" {
		onOneCore(p, bare)
	}
	p.fill(bytes, 7)
	counted := t.counted(h, p)
	bare.ask("copy %d", part) // allocates before the use of the card is measured
	var first, out, in, copyOut, copyIn []float64
	l, moved, wrong := left{least: math.Inf(1), leastNVML: math.Inf(1)}, counted, int64(0)
	for range m.rounds {
		copied, full, fullNVML := bare.ask("copy %d", part), bare.ask("info").Free, t.used()
		left := t.evict(p)
		l.least = min(l.least, float64(bare.ask("info").Free-full)/float64(bytes))
		if used := t.used(); fullNVML >= 0 && used >= 0 {
			l.leastNVML = min(l.leastNVML, float64(fullNVML-used)/float64(bytes))
		}
		back := t.prefetch(p)
		moved = min(moved, left.Moved, back.Moved)
		out, in = append(out, rate(left.Moved, left.Took)), append(in, rate(back.Moved, back.Took))
		copyOut, copyIn = append(copyOut, rate(part, copied.Out)), append(copyIn, rate(part, copied.In))
		wrong += wrongWords(p)
	}
	belowGraph := int64(0)
	for range h.graphs { // the later graphs are recorded of memory that has moved
		belowGraph += t.moveGraph(p, h, bytes)
	}
	bare.end(endTime) // its memory could be taken in the place of the block
	if h.left && t.s.Reclaim && l.least < t.s.Goals.Left {
		l.asked, l.given = true, t.reclaim(p, bytes)
	}
	if h.left && !h.vmm {
		t.evict(p)
		last := p.verify()
		wrong += last.Mismatches
		t.remark("A kernel that faulted the whole block in did so at %s GB/s.", gbs(rate(bytes, last.NS)))
	}
	stays := counted - moved
	row := []any{h.name, size(counted), size(stays), "", "", "", "", "", "", "", wrong, pick(h.graphs == 0, "not tried", fmt.Sprint(belowGraph))}
	if m.rounds > 0 {
		first, out = out[:1], out[1:]
		for i, speeds := range [][]float64{first, out, in, copyOut, copyIn} {
			row[3+i] = gbs(median(speeds))
		}
		row[8], row[9] = percent(l.least), pick(math.IsInf(l.leastNVML, 1), "unknown", percent(l.leastNVML))
	}
	table.row(row...)
	t.none("wrong words in "+h.name, wrong+belowGraph)
	t.whole("of the block counted by the shim in "+h.name, counted, bytes)
	if h.stays == "" && m.rounds > 0 {
		t.whole("of the block moved in "+h.name, moved, bytes)
	}
	switch {
	case h.stays != "" && stays >= bytes/2:
		t.say("%s: %s of %s stay on the card, because %s. Only the removal of the container frees this memory.",
			h.name, size(stays), size(counted), h.stays)
	case m.rounds > 0:
		t.say("%s: out at %s GB/s (%s the first time), in at %s GB/s; pinned copies at %s and %s GB/s.", h.name, row[4], row[3], row[5], row[6], row[7])
	}
	if h.graphs > 0 {
		t.say("%s: %d wrong words below graphs across moves.", h.name, belowGraph)
	}
	if h.speed {
		t.judgeSpeed(h.name+" out, the first time", first, copyOut[:1])
		t.judgeSpeed(h.name+" out", out, copyOut[1:])
		t.judgeSpeed(h.name+" in", in, copyIn)
	}
	if h.left {
		t.judgeLeft(l)
	}
}

// counted returns the memory that the shim counts for a program. A framework has its
// libraries by then. NVML lists their memory as well, which the invoker must not hold against
// a limit. NVML lists no managed memory.
func (t *trial) counted(h holder, p *program) (all int64) {
	const most = cudaContext + shimctl.LibraryBytes
	if h.module != "" {
		p.ask("work %d 3", p.block)
		p.ask("libraries")
	}
	listed := t.listed(p.cmd.Process.Pid)
	beside := listed
	for _, u := range value(p.container.Report(t.ctx)) {
		all += u.Allocated
		beside -= u.Listed()
	}
	if h.module != "" && listed >= 0 {
		t.judge("MiB that NVML lists beside the memory of "+h.name, float64(beside>>20), "",
			fmt.Sprintf("at most %d, as limits allow for", most>>20), beside <= most)
	}
	return all
}

// moveGraph records a pass, moves the memory and replays the graph. The addresses in the
// graph must stay valid, also when a replay faults the memory in.
func (t *trial) moveGraph(p *program, h holder, bytes int64) (wrong int64) {
	p.ask("graph %d", p.block)
	if out := t.evict(p).Moved; h.stays == "" && out < bytes {
		fail("%s of a block of %s moved below its graph", size(out), size(bytes))
	}
	if !h.vmm {
		p.running("replay %d 3", p.block)
		t.evict(p)
	}
	t.prefetch(p)
	p.running("replay %d 2", p.block)
	return wrongWords(p)
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

// judgeSpeed compares the speed of moves with copies of pinned memory at the same time. The
// first way out is judged apart: it creates the host's pages, and is the only way out of a
// short-lived container.
func (t *trial) judgeSpeed(what string, moves, copies []float64) {
	ratio := make([]float64, len(moves))
	for i, v := range moves {
		ratio[i] = share(v, copies[i])
	}
	v, goal := median(ratio), t.s.Goals.Swap
	t.judge(fmt.Sprintf("%s: %s GB/s, pinned copies %s GB/s", what, gbs(median(moves)), gbs(median(copies))),
		v, "share", fmt.Sprintf("at least %s of pinned copies", percent(goal)), v >= goal)
}

// judgeLeft finds out whether the block's memory was free for others. The driver may keep
// the emptied pages until another process asks for them, and count them as used. Then the
// question is whether the other process gets them.
func (t *trial) judgeLeft(l left) {
	least := t.s.Goals.Left
	goal := "at least " + percent(least) + ", or given on demand" + pick(l.given, " (it was)", "")
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
	case l.least < least:
		t.remark("The driver may have kept the emptied pages until they are asked for; --reclaim asks.")
	}
}

// whole adds a finding: a part of a block must be the whole block or more.
func (t *trial) whole(what string, part, all int64) {
	t.must(what, share(float64(part), float64(all)), "share", "at least 100%", part >= all)
}

// checkFresh measures the first touch of fresh memory: a kernel writes a block that nothing
// has written before, once with plain memory and once with managed memory.
func checkFresh(t *trial) {
	bytes := t.fit(min(1<<30, t.s.Swap, t.device.Free/20))
	t.take(2 * (bytes + t.contextBytes()))
	table := t.table(fmt.Sprintf("Blocks of %s, medians of %d fresh ones, GB/s", size(bytes), t.s.Rounds),
		"memory", "first write", "second write", "first way out")
	wrong := int64(0)
	for _, managed := range []bool{false, true} {
		p := t.worker(managed)
		speeds := make([][]float64, 3)
		for range t.s.Rounds {
			p.block = p.ask("alloc %d", bytes).Block
			for i := range 2 {
				speeds[i] = append(speeds[i], rate(bytes, p.ask("fill %d %d", p.block, i+1).NS))
			}
			if managed {
				speeds[2] = append(speeds[2], rate(bytes, t.moved(p, bytes)))
			}
			wrong += wrongWords(p)
			p.ask("free %d", p.block)
		}
		name, write := pick(managed, "managed, under the shim", "plain, without the shim"), gbs(median(speeds[0]))
		table.row(name, write, gbs(median(speeds[1])), pick(managed, gbs(median(speeds[2])), ""))
		t.say("First write of fresh memory (%s): %s GB/s.", name, write)
	}
	t.none("wrong words in fresh blocks, moved ones included", wrong)
}

// moved moves a program's whole block out and in. It returns the time out.
func (t *trial) moved(p *program, bytes int64) time.Duration {
	out, in := t.evict(p), t.prefetch(p)
	if out.Moved < bytes || in.Moved < bytes {
		fail("%s went out and %s came in of a block of %s", size(out.Moved), size(in.Moved), size(bytes))
	}
	return out.Took
}
