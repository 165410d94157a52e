package gpucheck

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// swapRounds: the first round makes the host's pages; the others are judged.
const swapRounds = 4

// checkSwap moves one large block out and in, sees by two witnesses that it
// left, verifies every word, and holds its speed against copies of pinned
// memory in the same minute.
func checkSwap(ctx context.Context, b *bed, r *Result) error {
	bytes, err := b.fit(r, min(b.s.Swap, b.free*4/10))
	if err != nil {
		return err
	}
	pinned := min(bytes, 1<<30)
	if err := b.take(bytes + pinned); err != nil {
		return err
	}
	before, err := b.copies(ctx, pinned)
	if err != nil {
		return err
	}
	t := r.table(fmt.Sprintf("%s, chunks of 64 MiB", size(bytes)),
		"round", "order", "moved", "GB/s", "in use by cuMemGetInfo", "by NVML")
	s, err := b.swap(ctx, t, bytes, swapRounds)
	if err != nil {
		return err
	}
	after, err := b.copies(ctx, pinned)
	if err != nil {
		return err
	}
	b.judgeSwap(r, s, before.with(after))
	return b.chunks(ctx, r, bytes)
}

// bandwidth are copies' or moves' speeds each way, in GB/s.
type bandwidth struct{ in, out []float64 }

func (x bandwidth) with(y bandwidth) bandwidth {
	return bandwidth{append(x.in, y.in...), append(x.out, y.out...)}
}

// copies measures plain copies between pinned memory and the device, in a
// process without the shim.
func (b *bed) copies(ctx context.Context, bytes int64) (bandwidth, error) {
	p, err := b.plain(ctx)
	if err != nil {
		return bandwidth{}, err
	}
	defer p.leave()
	var a copyAnswer
	if err := p.do(ctx, &a, "copy %d 5", bytes); err != nil {
		return bandwidth{}, err
	}
	return bandwidth{in: rates(bytes, a.In), out: rates(bytes, a.Out)}, nil
}

// swapped is what came of the rounds of one block.
type swapped struct {
	bandwidth
	bytes                int64
	wrong, rounds        int64
	left, leftNVML       float64 // the least share that was free after an eviction
	firstOut, firstIn    float64
	faulted              float64 // GB/s of a kernel that faults all of it in
	toHost, toHostAnswer bool
	asked, given         bool // by another process, beyond what counted as free
}

// swap moves a block out and in, round after round.
func (b *bed) swap(ctx context.Context, t *Table, bytes int64, rounds int, env ...string) (swapped, error) {
	s := swapped{bytes: bytes, left: math.Inf(1), leftNVML: math.Inf(1), toHost: true}
	g, err := b.worker(ctx, env...)
	if err != nil {
		return s, err
	}
	defer g.leave()
	block, err := g.filled(ctx, bytes, 7)
	if err != nil {
		return s, err
	}
	full, err := b.fill(ctx, g.program)
	if err != nil {
		return s, err
	}
	t.row(append([]string{"", "filled", size(bytes), ""}, full.cells()...)...)
	for i := range rounds {
		if err := b.round(ctx, t, g, block, i, &s); err != nil {
			return s, err
		}
	}
	if b.s.Reclaim && s.left < b.s.Goals.Left {
		if err := b.reclaim(ctx, g, &s); err != nil {
			return s, err
		}
	}
	return s, b.faulted(ctx, t, g, block, &s)
}

// reclaim moves the block out and has another process ask for its place beyond
// what counts as free: it gets that only if nothing of the block is left there.
func (b *bed) reclaim(ctx context.Context, g *guest, s *swapped) error {
	if _, err := b.evict(ctx, g.box); err != nil {
		return err
	}
	p, err := b.plain(ctx)
	if err != nil {
		return err
	}
	defer p.leave()
	var m memoryAnswer
	if err := p.do(ctx, &m, "info"); err != nil {
		return err
	}
	var a struct {
		Took int `json:"took"`
	}
	if err := p.do(ctx, &a, "take %d", m.Free+s.bytes-s.bytes/20); err != nil {
		return err
	}
	s.asked, s.given = true, a.Took == 1
	_, err = b.prefetch(ctx, g.box)
	return err
}

func (b *bed) round(ctx context.Context, t *Table, g *guest, block, i int, s *swapped) error {
	full, err := b.fill(ctx, g.program)
	if err != nil {
		return err
	}
	out, err := b.evict(ctx, g.box)
	if err != nil {
		return err
	}
	empty, err := b.fill(ctx, g.program)
	if err != nil {
		return err
	}
	s.leaves(full, empty)
	if err := g.place(ctx, block, s); err != nil {
		return err
	}
	moved := rate(out.Moved, out.Took)
	t.row(append([]string{strconv.Itoa(i + 1), "evict", size(out.Moved), fmt.Sprintf("%.1f", moved)}, empty.cells()...)...)
	in, err := b.prefetch(ctx, g.box)
	if err != nil {
		return err
	}
	again, err := b.fill(ctx, g.program)
	if err != nil {
		return err
	}
	back := rate(in.Moved, in.Took)
	t.row(append([]string{strconv.Itoa(i + 1), "prefetch", size(in.Moved), fmt.Sprintf("%.1f", back)}, again.cells()...)...)
	if out.Moved < s.bytes || in.Moved < s.bytes {
		return fmt.Errorf("round %d: %s went out and %s came in of a block of %s", i+1, size(out.Moved), size(in.Moved), size(s.bytes))
	}
	if i == 0 {
		s.firstOut, s.firstIn = moved, back
	} else {
		s.out, s.in = append(s.out, moved), append(s.in, back)
	}
	return s.verify(ctx, g, block)
}

func (s *swapped) verify(ctx context.Context, g *guest, block int) error {
	c, err := g.wrong(ctx, block)
	s.wrong += c.Mismatches
	s.rounds++
	return err
}

// leaves notes how much of the block was free after an eviction.
func (s *swapped) leaves(full, empty fill) {
	s.left = min(s.left, float64(full.driver-empty.driver)/float64(s.bytes))
	if full.nvml >= 0 && empty.nvml >= 0 {
		s.leftNVML = min(s.leftNVML, float64(full.nvml-empty.nvml)/float64(s.bytes))
	}
}

// place asks the driver where it last sent the block.
func (g *guest) place(ctx context.Context, block int, s *swapped) error {
	var a placeAnswer
	if err := g.do(ctx, &a, "where %d", block); err != nil {
		return err
	}
	if a.Place != -2 {
		s.toHostAnswer = true
		s.toHost = s.toHost && a.Place == -1
	}
	return nil
}

// faulted evicts once more and lets a kernel fault everything in.
func (b *bed) faulted(ctx context.Context, t *Table, g *guest, block int, s *swapped) error {
	if _, err := b.evict(ctx, g.box); err != nil {
		return err
	}
	c, err := g.wrong(ctx, block)
	if err != nil {
		return err
	}
	s.wrong += c.Mismatches
	s.rounds++
	s.faulted = rate(s.bytes, time.Duration(c.NS))
	f, err := b.fill(ctx, g.program)
	t.row(append([]string{"", "faults", size(s.bytes), fmt.Sprintf("%.1f", s.faulted)}, f.cells()...)...)
	return err
}

func (b *bed) judgeSwap(r *Result, s swapped, copies bandwidth) {
	goals := b.s.Goals
	r.must(fmt.Sprintf("wrong words after %d swaps of %s", s.rounds, size(s.bytes)), float64(s.wrong), "", "0", s.wrong == 0)
	b.judgeLeft(r, s)
	goal := fmt.Sprintf("at least %s of pinned copies", percent(goals.Swap))
	for _, way := range []struct {
		name         string
		moves, plain []float64
	}{{"out", s.out, copies.out}, {"in", s.in, copies.in}} {
		v := share(median(way.moves), median(way.plain))
		r.judge(fmt.Sprintf("swap %s at %.1f GB/s, pinned copies at %.1f GB/s", way.name, median(way.moves), median(way.plain)),
			v, "share", goal, v >= goals.Swap)
	}
	r.note("The first round, in which the host's pages come to be, is not judged: %.1f GB/s out, %.1f GB/s in. A kernel that faulted everything in did so at %.1f GB/s.",
		s.firstOut, s.firstIn, s.faulted)
}

// judgeLeft tells whether the block's room was there for others. The driver may
// keep the emptied places for managed memory until somebody asks for the room,
// and count them as used: then what counts is whether it gives them.
func (b *bed) judgeLeft(r *Result, s swapped) {
	least := b.s.Goals.Left
	left := fmt.Sprintf("at least %s", percent(least))
	if s.given {
		left += ", or given to who asks"
	}
	r.judge("of the block free after an eviction, by cuMemGetInfo", s.left, "share", left, s.given || s.left >= least)
	if math.IsInf(s.leftNVML, 1) {
		r.note("NVML does not tell how full the card is (%s).", b.mon.says())
	} else {
		r.judge("of the block free after an eviction, by NVML", s.leftNVML, "share", left, s.given || s.leftNVML >= least)
	}
	switch {
	case s.asked && s.given:
		r.note("Another process got plain memory in the place of the block that had left, beyond what counted as free.")
	case s.asked:
		r.note("Another process did not get plain memory in the place of the block that had left.")
	case s.left < least && s.toHostAnswer && s.toHost:
		r.note("The driver says that it last sent the block to the host. It may have kept the emptied places until somebody asks for the room; --reclaim asks.")
	}
}

// chunks looks for a better size of the shim's chunks. Nothing is judged.
func (b *bed) chunks(ctx context.Context, r *Result, bytes int64) error {
	t := r.table("Other sizes of chunks (GPUWHISK_SHIM_CHUNK)", "chunk", "out GB/s", "in GB/s")
	for _, mib := range []int{16, 256} {
		s, err := b.swap(ctx, &Table{}, bytes, 2, fmt.Sprintf("GPUWHISK_SHIM_CHUNK=%d", mib<<20))
		if err != nil {
			return fmt.Errorf("chunks of %d MiB: %w", mib, err)
		}
		r.must(fmt.Sprintf("wrong words with chunks of %d MiB", mib), float64(s.wrong), "", "0", s.wrong == 0)
		t.row(fmt.Sprintf("%d MiB", mib), fmt.Sprintf("%.1f", median(s.out)), fmt.Sprintf("%.1f", median(s.in)))
	}
	return nil
}
