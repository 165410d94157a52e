package sim

import (
	"testing"
	"time"
)

// TestAHotFunctionGetsItsContainers: a function that starts to be called for
// more than one container can serve gets a second one, under sticky-plus about
// as soon as under the paper's policy, on one device and over two.
func TestAHotFunctionGetsItsContainers(t *testing.T) {
	f := Function{Name: "hot", Warm: time.Second, Cold: 11 * time.Second, Memory: gib}
	var at []float64
	for s := 0.0; s < 200; s += 10 {
		at = append(at, s)
	}
	for s := 200.0; s < 1400; s += 1 / 1.5 {
		at = append(at, s)
	}
	w := calls([]Function{f}, map[string][]float64{"hot": at})
	for _, server := range []struct{ devices, tokens int }{{1, 2}, {2, 1}, {4, 2}} {
		mean := map[string]float64{}
		for _, policy := range []string{"mqfq-sticky", "sticky-plus"} {
			p := params(t, policy)
			p.Devices, p.Tokens.Max = server.devices, server.tokens
			mean[policy] = run(t, w, p).Latency.Mean
		}
		t.Logf("%+v: %v ms", server, mean)
		if mean["sticky-plus"] > 1.2*mean["mqfq-sticky"] {
			t.Errorf("%+v: %v ms", server, mean)
		}
	}
}
