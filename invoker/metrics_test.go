package invoker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
		check.Equal(t, len(series), maxWaiters+1, "%s", when)
		ofOthers := func(s string) bool {
			return strings.HasPrefix(s, `gpuwhisk_gpu_function_queue_seconds{action="other",`) && strings.HasSuffix(s, " 50")
		}
		check.That(t, slices.ContainsFunc(series, ofOthers), "%s: 50 runs of other functions in %q", when, series)
	}
	bounded("at first")
	m.forget(id(0))
	m.queued(id(maxWaiters), time.Second)
	bounded("after one was forgotten")
}
