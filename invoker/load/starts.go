package load

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// fetchers ask for records at the same time. Few, for the load is over and
// those who use the system are not.
const fetchers = 8

// Unknown is the start of a run of which there was no word.
const Unknown = "unknown"

// Starts fetches the records of calls that did not tell how they started. A
// record may be written some time after its answer: what is missing is asked
// for again until none came for as long as patience, or ctx ends.
func Starts(ctx context.Context, r *Result, system System, patience time.Duration, progress func(missing int)) {
	var missing []*Call
	for i := range r.Calls {
		if c := &r.Calls[i]; c.Ran && c.Start == "" {
			missing = append(missing, c)
		}
	}
	for last := time.Now(); len(missing) > 0 && ctx.Err() == nil && time.Since(last) < patience; {
		if progress != nil {
			progress(len(missing))
		}
		left := round(ctx, missing, system)
		if len(left) < len(missing) {
			last = time.Now()
		}
		if missing = left; len(missing) == 0 {
			break
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	for _, c := range missing {
		c.Start = Unknown
	}
}

// round asks once for each and returns those that are still missing. It tells
// nothing of a large round before it has ended: at eight at a time that is soon.
func round(ctx context.Context, calls []*Call, system System) []*Call {
	var next atomic.Int64
	var all errgroup.Group
	for range fetchers {
		all.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(calls)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
				if start, ok := system.Start(bounded, calls[i].ID); ok {
					calls[i].Start = start
				}
				cancel()
			}
			return nil
		})
	}
	_ = all.Wait() // nobody fails: what was not found is asked for again
	var left []*Call
	for _, c := range calls {
		if c.Start == "" {
			left = append(left, c)
		}
	}
	return left
}
