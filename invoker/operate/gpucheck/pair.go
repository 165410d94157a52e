package gpucheck

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// pair is two processes on one device (D=2).
type pair struct {
	*trial
	guests []*guest
	bytes  int64 // of a block
	passes int
	rounds int
	orders int
}

// checkPair runs two processes on one device: each runs while the other's memory
// is moved out and in, then both run at once.
func checkPair(t *trial) *pair {
	bytes := t.fit(2*min(t.s.Set, t.device.Free/8)) / 2
	t.take(2 * (bytes + t.contextBytes()))
	p := &pair{trial: t, bytes: bytes, rounds: max(min(t.s.Rounds, 5), 2)}
	for i := range 2 {
		p.guests = append(p.guests, t.worker())
		p.guests[i].fill(bytes, 11+i)
	}
	p.passes = p.guests[0].calibrate(t.s.RunTime)
	p.phases()
	return p
}

func (p *pair) phases() {
	table := p.table(fmt.Sprintf("Two processes of %s, %d passes a run", size(p.bytes), p.passes), "run of", "beside it", "median ms", "slowest ms")
	var wrong int64
	for _, phase := range []struct {
		of, beside string
		run        func() []float64
	}{
		{"first", "nothing", func() []float64 { return []float64{p.run(0)} }},
		{"second", "nothing", func() []float64 { return []float64{p.run(1)} }},
		{"first", "second goes and comes", func() []float64 { return p.beside(0) }},
		{"second", "first goes and comes", func() []float64 { return p.beside(1) }},
		{"both", "each other", p.both},
	} {
		var took []float64
		for range p.rounds {
			took = append(took, phase.run()...)
		}
		table.row(phase.of, phase.beside, fmt.Sprintf("%.2f", median(took)), fmt.Sprintf("%.2f", slices.Max(took)))
		wrong += wrongWords(p.guests...)
	}
	p.none("wrong words in both, after all", wrong)
	p.must("orders carried out beside a run", float64(p.orders), fmt.Sprint(4*p.rounds), p.orders == 4*p.rounds)
}

func (p *pair) run(i int) float64 { return ms(p.guests[i].run(p.passes)) }

// beside runs one while the other is moved out and in.
func (p *pair) beside(i int) []float64 {
	var took float64
	parallel(2, 2, func(n int) {
		if n == 0 {
			took = p.run(i)
			return
		}
		p.evict(p.guests[1-i])
		p.prefetch(p.guests[1-i])
		p.orders += 2
	})
	return []float64{took}
}

func (p *pair) both() []float64 {
	took := make([]float64, 2)
	parallel(2, 2, func(i int) { took[i] = p.run(i) })
	return took
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// mpsName is the name of MPS's programs, as far as the kernel keeps names.
const mpsName = "nvidia-cuda-mps"

// mpsRuns reports whether an MPS daemon runs; proc is /proc.
func mpsRuns(proc fs.FS) bool {
	names, _ := fs.Glob(proc, "[0-9]*")
	return slices.ContainsFunc(names, func(name string) bool {
		comm, err := fs.ReadFile(proc, path.Join(name, "comm"))
		return err == nil && strings.HasPrefix(string(comm), mpsName)
	})
}

// needMPS needs a daemon that runs already: the check starts, stops and sets nothing
// of MPS, and other programs may use it.
func needMPS(t *trial) {
	switch {
	case t.fake:
		t.remark("simulated: the fake driver has no MPS, its two processes share it as they do without")
	case !mpsRuns(os.DirFS("/proc")):
		skip("no MPS daemon: start one (nvidia-cuda-mps-control -d) to have two of its clients checked")
	}
}

// checkMPS has two processes share the device by MPS, as pair does without it, and
// then ask for more than their limit.
func checkMPS(t *trial) {
	p := checkPair(t)
	first, second := p.guests[0], p.guests[1]
	first.container.Limit(p.bytes+p.bytes/2, 0)
	value(first.container.Report(t.ctx)) // it has its limit by then
	given := int64(0)
	if catch(func() { first.fill(p.bytes, 21) }) == nil {
		given = 1
	}
	check(t.ctx.Err())
	t.none("blocks given beyond the limit of one and a half", given)
	t.none("wrong words in the other, after that", wrongWords(second))
}
