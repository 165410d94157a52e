package sim

import (
	"fmt"
	"time"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// catalogue is Table 1 of the paper: warm and cold times on a V100. Memory is
// ours but for FFT's 1.5 GB, the only figure the paper prints: frameworks that
// grab device memory ahead are given more, and the Rodinia kernels what inputs
// of such running times need.
var catalogue = [...]Function{
	{Name: "imagenet", Warm: 2253 * time.Millisecond, Cold: 11286 * time.Millisecond, Memory: 4 * gib},
	{Name: "roberta", Warm: 268 * time.Millisecond, Cold: 15481 * time.Millisecond, Memory: 4 * gib},
	{Name: "ffmpeg", Warm: 4483 * time.Millisecond, Cold: 4612 * time.Millisecond, Memory: 1 * gib},
	{Name: "fft", Warm: 897 * time.Millisecond, Cold: 3322 * time.Millisecond, Memory: 1536 * mib},
	{Name: "isoneural", Warm: 26 * time.Millisecond, Cold: 9963 * time.Millisecond, Memory: 3 * gib},
	{Name: "lud", Warm: 2050 * time.Millisecond, Cold: 2359 * time.Millisecond, Memory: 2 * gib},
	{Name: "needle", Warm: 1979 * time.Millisecond, Cold: 2177 * time.Millisecond, Memory: 3 * gib},
	{Name: "pathfinder", Warm: 1472 * time.Millisecond, Cold: 1797 * time.Millisecond, Memory: 3 * gib},
}

// Catalogue returns the eight functions of the paper's Table 1.
func Catalogue() []Function { return append([]Function(nil), catalogue[:]...) }

// copies returns n functions, the catalogue's over and over, numbered apart.
func copies(n int) []Function {
	out := make([]Function, n)
	for i := range out {
		out[i] = catalogue[i%len(catalogue)]
		out[i].Name = fmt.Sprintf("%s-%d", out[i].Name, i/len(catalogue))
	}
	return out
}

// named returns one function of the catalogue under another name.
func named(base, name string) Function {
	for _, f := range catalogue {
		if f.Name == base {
			f.Name = name
			return f
		}
	}
	panic("sim: no function " + base)
}
