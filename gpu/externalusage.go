package gpu

import "slices"

// ExternalUsage finds device memory that belongs to no container: allocations that escape the shim,
// the remains of a container that did not end cleanly, or another user of the device. It
// compares the used memory reported by the driver with the accounted memory. The zero value
// has found nothing.
type ExternalUsage struct {
	found int64
	// kept is the most that the driver can still have in use of memory that was moved to
	// the host: it keeps the emptied pages until somebody needs them.
	kept     int64
	movedOut int64                  // as read last
	above    [foreignReadings]int64 // the last readings less the held memory
	rests    [foreignReadings]int64 // the last ones, of any kind
	seen     int
	quiet    int // quiet readings in a row
}

const (
	// foreignLeast is the unexplained memory of a healthy device: rounded-up pages, and the
	// driver's own data for each process.
	foreignLeast = 64 << 20
	// foreignReadings is how many readings in a row must agree before the result
	// grows. Device and containers do not report at the same moment, so one reading
	// may be older than the containers' last reports.
	foreignReadings = 3
)

// Read takes how much of a device is used, how much containers hold there, and how much
// of their memory was moved to the host so far, and returns how much is foreign. quiet
// means that nothing runs or moves: only then are used and held comparable, so only then
// does the result grow, and it falls at once. Otherwise containers may have more than they
// have reported so far, and the result only falls, to the most of the last readings. A
// negative used is no reading.
func (f *ExternalUsage) Read(used, held, movedOut int64, quiet bool) int64 {
	if used < 0 {
		return f.found
	}
	above := max(0, used-held)
	f.kept += max(0, movedOut-f.movedOut)
	f.movedOut = movedOut
	rest := max(0, above-f.kept)
	if rest < foreignLeast {
		rest = 0
	}
	f.above[f.seen], f.rests[f.seen] = above, rest
	f.seen = (f.seen + 1) % foreignReadings
	if !quiet {
		f.quiet = 0
		f.found = min(f.found, slices.Max(f.rests[:]))
		return f.found
	}
	if f.quiet++; f.quiet >= foreignReadings {
		f.kept = min(f.kept, slices.Max(f.above[:]))
	}
	if rest < f.found {
		f.found = rest
	} else if f.quiet >= foreignReadings {
		f.found = max(f.found, slices.Min(f.rests[:]))
	}
	return f.found
}
