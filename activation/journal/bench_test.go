package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// BenchmarkActivation takes activations through all steps, 64 at a time, as
// the invoker does, and reports the processor time of one beside the elapsed.
// Of reported ones the journal keeps the record before the caller gets the result.
func BenchmarkActivation(b *testing.B) {
	record := make([]byte, 1130)
	for s := range 2 * len(wal.Syncs()) {
		syncs, reported := wal.Sync(s/2), s%2 == 1
		b.Run(fmt.Sprintf("%s/reported=%t", syncs, reported), func(b *testing.B) {
			j := open(b, Config{Dir: b.TempDir(), Sync: syncs})
			ids := make([]activation.ID, 1<<16)
			for i := range ids {
				ids[i] = id(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := processor()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						id := ids[i%int64(len(ids))]
						j.Delivered(id, 0, i)
						begin(j, id)
						if reported {
							j.KeepUnacknowledged([]activation.ID{id}, [][]byte{record})
						}
						j.Completed(id)
						if i%1000 == 0 {
							j.ForgetBelow(0, func(offset int64) bool { return offset <= i })
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(processor()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processor is the processor time that this process has used, in ns.
func processor() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
