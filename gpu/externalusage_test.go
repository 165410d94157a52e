package gpu

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestForeign reads scripts of a device's used memory and the containers' held memory.
func TestForeign(t *testing.T) {
	const mb, gb = int64(1 << 20), int64(1 << 30)
	type reading struct {
		used, held, movedOut int64
		quiet                bool
		want                 int64
	}
	quiet := func(used, held, want int64) reading { return reading{used, held, 0, true, want} }
	busy := func(used, held, want int64) reading { return reading{used, held, 0, false, want} }
	moved := func(used, held, movedOut, want int64) reading { return reading{used, held, movedOut, true, want} }
	for name, script := range map[string][]reading{
		"found after three readings, of which the least counts": {
			quiet(5*gb, gb, 0), quiet(6*gb, gb, 0), quiet(5*gb, gb, 4*gb), quiet(5*gb, gb, 4*gb),
		},
		"little is not looked at": {quiet(63*mb, 0, 0), quiet(63*mb, 0, 0), quiet(63*mb, 0, 0), quiet(64*mb, 0, 0)},
		"emptied pages are the driver's": {
			quiet(8*gb, 8*gb, 0), moved(8*gb, 2*gb, 6*gb, 0), moved(8*gb, 2*gb, 6*gb, 0), moved(8*gb, 2*gb, 6*gb, 0),
			moved(8*gb, 8*gb, 6*gb, 0), moved(8*gb, 2*gb, 12*gb, 0), moved(8*gb, 2*gb, 12*gb, 0), moved(8*gb, 2*gb, 12*gb, 0),
		},
		"found beside memory that was moved out": {
			moved(2*gb, 2*gb, 90*gb, 0), moved(2*gb, 2*gb, 90*gb, 0), moved(2*gb, 2*gb, 90*gb, 0),
			moved(5*gb, 2*gb, 90*gb, 0), moved(5*gb, 2*gb, 90*gb, 0), moved(5*gb, 2*gb, 90*gb, 3*gb),
			moved(8*gb, 2*gb, 93*gb, 3*gb),
		},
		"accounted for and not there is no debt": {quiet(gb, 4*gb, 0), quiet(gb, 4*gb, 0), quiet(gb, 4*gb, 0)},
		"falls at once": {
			quiet(gb, 0, 0), quiet(gb, 0, 0), quiet(gb, 0, gb), quiet(512*mb, 0, 512*mb), quiet(0, 0, 0),
		},
		"grows only in quiet": {
			busy(gb, 0, 0), busy(gb, 0, 0), busy(gb, 0, 0), quiet(gb, 0, 0), quiet(gb, 0, 0), busy(gb, 0, 0),
			quiet(gb, 0, 0), quiet(gb, 0, 0), quiet(gb, 0, gb),
		},
		"falls among runs when it is gone for good": {
			quiet(gb, 0, 0), quiet(gb, 0, 0), quiet(gb, 0, gb),
			busy(5*gb, 0, gb), busy(4*gb, 4*gb, gb), busy(4*gb, 4*gb, gb), busy(4*gb, 4*gb, 0),
		},
		"one late reading is no find": {
			quiet(0, 0, 0), quiet(9*gb, 0, 0), quiet(0, 0, 0), quiet(9*gb, 0, 0), quiet(0, 0, 0),
		},
		"a driver that does not say": {
			quiet(gb, 0, 0), quiet(gb, 0, 0), quiet(gb, 0, gb), quiet(-1, 0, gb),
		},
	} {
		var f ExternalUsage
		for i, r := range script {
			got := f.Read(r.used, r.held, r.movedOut, r.quiet)
			check.Equal(t, got, r.want, "%s: reading %d: %d MiB, want %d", name, i, got>>20, r.want>>20)
		}
	}
}
