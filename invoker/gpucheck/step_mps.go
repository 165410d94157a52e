package gpucheck

import (
	"context"
	"io/fs"
	"os"
	"path"
	"strings"
)

// mpsName is how the programs of MPS are called, as far as the kernel keeps names.
const mpsName = "nvidia-cuda-mps"

// mpsRuns tells whether an MPS daemon runs; proc is /proc.
func mpsRuns(proc fs.FS) bool {
	names, _ := fs.Glob(proc, "[0-9]*")
	for _, name := range names {
		comm, err := fs.ReadFile(proc, path.Join(name, "comm"))
		if err == nil && strings.HasPrefix(string(comm), mpsName) {
			return true
		}
	}
	return false
}

// checkMPS has two processes share the device by MPS, as pair does without it, and
// then ask for more than their limit. It needs a daemon that runs already: it starts,
// stops and sets nothing of MPS, and other programs may use it.
func checkMPS(ctx context.Context, b *bed, r *Result) error {
	switch {
	case b.fake:
		r.note("simulated: the fake driver knows no MPS, its two processes share it as they do without")
	case !mpsRuns(os.DirFS("/proc")):
		return skip("no MPS daemon: start one (nvidia-cuda-mps-control -d) to have two of its clients checked")
	}
	p, err := runPair(ctx, b, r)
	if err != nil {
		return err
	}
	return p.limits(ctx, r)
}

// limits has the first ask for more than it may, by the shim's limit and not by what
// the card has; the second's memory stays what it was.
func (p *pair) limits(ctx context.Context, r *Result) error {
	first, second := p.g[0], p.g[1]
	first.box.Limit(p.bytes+p.bytes/2, 0)
	if _, err := first.box.Report(ctx); err != nil { // it has heard of its limit by then
		return err
	}
	_, refused := first.filled(ctx, p.bytes, 21)
	if err := ctx.Err(); err != nil {
		return err
	}
	given := 0.0
	if refused == nil {
		given = 1
	}
	r.must("blocks given beyond the limit of one and a half", given, "", "0", refused != nil)
	c, err := second.wrong(ctx, p.block[1])
	if err != nil {
		return err
	}
	r.must("wrong words in the other, after that", float64(c.Mismatches), "", "0", c.Mismatches == 0)
	return nil
}
