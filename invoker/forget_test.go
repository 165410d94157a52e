package invoker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// TestForgottenFunctionHasNoSeries: and those of others stay.
func TestForgottenFunctionHasNoSeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, reg)
	series := func(of string) (n int) {
		for _, s := range seriesOf(t, reg) {
			if strings.Contains(s, fmt.Sprintf("action=%q", of)) {
				n++
			}
		}
		return n
	}
	for _, name := range []string{"f", "g"} {
		f := sched.FlowID{Namespace: "n", Function: name}
		m.queued(f, time.Second)
		m.served(f, time.Second)
		m.moved(f, gpu.Prefetch, 1)
		m.moved(f, gpu.Evict, 1)
		m.resident(f, assumedMemory{f: 1}, 2, true)
	}
	m.forget(sched.FlowID{Namespace: "n", Function: "f"})
	if n := series("f"); n != 0 {
		t.Errorf("%d series of a forgotten function", n)
	}
	if n := series("g"); n != 6 {
		t.Errorf("%d series of another, want 6", n)
	}
}

// TestForgottenNamespace: what is known of a namespace goes with its last function.
func TestForgottenNamespace(t *testing.T) {
	h := history{flows: map[sched.FlowID]*flowHistory{}, of: map[string]int{}}
	f, g := sched.FlowID{Namespace: "n", Function: "f"}, sched.FlowID{Namespace: "n", Function: "g"}
	space := sched.FlowID{Namespace: "n"}
	for _, id := range []sched.FlowID{f, g, space, f} {
		h.flow(id)
	}
	h.forget(f)
	h.forget(f)
	if h.flows[space] == nil {
		t.Error("a namespace is forgotten that has a function")
	}
	h.forget(g)
	if n := len(h.flows) + len(h.of); n != 0 {
		t.Errorf("%d functions and namespaces are known", n)
	}
}

// BenchmarkForget is what a forgotten function costs beside 100,000 others.
func BenchmarkForget(b *testing.B) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, reg)
	h := history{flows: map[sched.FlowID]*flowHistory{}, of: map[string]int{}}
	come := func(i int) sched.FlowID {
		f := sched.FlowID{Namespace: "n", Function: fmt.Sprint(i)}
		h.flow(f)
		m.served(f, time.Second)
		m.resident(f, assumedMemory{}, 2, true)
		return f
	}
	for i := range 100_000 {
		come(i)
	}
	for b.Loop() {
		f := come(-1)
		m.forget(f)
		h.forget(f)
	}
}
