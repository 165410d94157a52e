package invoker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
	check.Equal(t, series("f"), 0, "series of a forgotten function")
	check.Equal(t, series("g"), 6, "series of another")
}

// TestForgottenNamespace: what is known of a namespace goes with its last function.
func TestForgottenNamespace(t *testing.T) {
	h := history{flows: map[sched.FlowID]*flowHistory{}, functions: map[string]int{}}
	f, g := sched.FlowID{Namespace: "n", Function: "f"}, sched.FlowID{Namespace: "n", Function: "g"}
	space := sched.FlowID{Namespace: "n"}
	for _, id := range []sched.FlowID{f, g, space, f} {
		h.flow(id)
	}
	h.forget(f)
	h.forget(f)
	check.That(t, h.flows[space] != nil, "a namespace is forgotten that has a function")
	h.forget(g)
	check.Equal(t, len(h.flows)+len(h.functions), 0, "functions and namespaces are known")
}

// BenchmarkForget is what a forgotten function costs beside 100,000 others.
func BenchmarkForget(b *testing.B) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, reg)
	h := history{flows: map[sched.FlowID]*flowHistory{}, functions: map[string]int{}}
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
