package invoker

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
	"github.com/prometheus/client_golang/prometheus"
)

// TestFunctionsHaveBoundedSeries: however many functions come, so many have a
// histogram of their own, and a forgotten one makes a place for another.
func TestFunctionsHaveBoundedSeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(prometheus.NewRegistry(), reg)
	id := func(i int) sched.FlowID { return sched.FlowID{Namespace: "ns", Function: fmt.Sprint("ns/f", i)} }
	for i := range maxWaiters + 50 {
		m.queued(id(i), time.Second)
	}
	series := func() (n int, other uint64) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "gpuwhisk_gpu_function_queue_seconds" {
				continue
			}
			for _, s := range f.GetMetric() {
				n++
				if s.GetLabel()[0].GetValue() == "other" {
					other = s.GetHistogram().GetSampleCount()
				}
			}
		}
		return n, other
	}
	if n, other := series(); n != maxWaiters+1 || other != 50 {
		t.Errorf("%d series, %d runs of other functions; want %d and 50", n, other, maxWaiters+1)
	}
	m.forget(id(0))
	m.queued(id(maxWaiters), time.Second)
	if n, other := series(); n != maxWaiters+1 || other != 50 {
		t.Errorf("after one was forgotten: %d series, %d of others; want %d and 50", n, other, maxWaiters+1)
	}
}
