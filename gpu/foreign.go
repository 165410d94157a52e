package gpu

import "slices"

// Foreign finds the memory of a device that belongs to no container:
// allocations that escape the shim, the rest of a container that did not die
// cleanly, or another user of the device. It compares the memory that the driver
// reports as used with what is accounted for. The zero value has found nothing.
type Foreign struct {
	found int64
	rests [foreignReadings]int64 // the last ones, of any kind
	seen  int
	quiet int // quiet readings in a row
}

const (
	// foreignLeast is what goes unexplained on a healthy device: pages that
	// are rounded up, and the driver's own bits for each process.
	foreignLeast = 64 << 20
	// foreignReadings is how many readings in a row must agree before the result
	// grows. Device and containers do not report at the same moment, so one reading
	// may be older than the containers' last reports.
	foreignReadings = 3
)

// Read takes how much of a device is used and how much of that is accounted for,
// and returns what is foreign. quiet means that nothing runs or moves: only then
// are the two comparable, so only then does the result grow, and it falls at
// once. Otherwise containers may have more than they have reported so far, and
// the result only falls, to the most of the last readings. A negative used is no
// reading.
func (f *Foreign) Read(used, accounted int64, quiet bool) int64 {
	if used < 0 {
		return f.found
	}
	rest := max(0, used-accounted)
	if rest < foreignLeast {
		rest = 0
	}
	f.rests[f.seen%foreignReadings] = rest
	f.seen = (f.seen + 1) % (2 * foreignReadings)
	if !quiet {
		f.quiet = 0
		f.found = min(f.found, slices.Max(f.rests[:]))
		return f.found
	}
	f.quiet++
	if rest < f.found {
		f.found = rest
	} else if f.quiet >= foreignReadings {
		f.found = max(f.found, slices.Min(f.rests[:]))
	}
	return f.found
}
