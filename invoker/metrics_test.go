package invoker

import (
	"fmt"
	"slices"
	"strings"
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
	bounded := func(when string) {
		t.Helper()
		series := seriesOf(t, reg)
		if n := len(series); n != maxWaiters+1 || !slices.ContainsFunc(series, func(s string) bool {
			return strings.HasPrefix(s, `gpuwhisk_gpu_function_queue_seconds{action="other",`) && strings.HasSuffix(s, " 50")
		}) {
			t.Errorf("%s: %d series, want %d and 50 runs of other functions:\n%s", when, n, maxWaiters+1, series[n-1])
		}
	}
	bounded("at first")
	m.forget(id(0))
	m.queued(id(maxWaiters), time.Second)
	bounded("after one was forgotten")
}
