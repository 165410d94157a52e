package invoker

import (
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A series is there from its first use on, and is one for all who use it.
func TestSeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := newSeries(maker{reg}.counter("c", "-", "label").WithLabelValues)
	values := func() map[string]float64 {
		all, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range all {
			for _, m := range family.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
		return got
	}
	if got := values(); len(got) != 0 {
		t.Fatalf("%v before the first use", got)
	}
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for _, label := range []string{"a", "b", "a"} {
				s.of(label).Inc()
			}
		})
	}
	users.Wait()
	if got := values(); len(got) != 2 || got["a"] != 16 || got["b"] != 8 {
		t.Errorf("%v, want 16 and 8", got)
	}
}
