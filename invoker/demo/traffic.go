package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// traffic is how much of the functions' memory was moved to the device and off
// it, in bytes.
type traffic struct{ in, out float64 }

// movedMetric is the invoker's count of it.
const movedMetric = "gpuwhisk_gpu_moved_bytes_total"

// measure asks the invoker's metrics, which are at an address of its own, how
// much was moved.
func measure(ctx context.Context, addr string) (t traffic, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return t, fmt.Errorf("ask for metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return t, fmt.Errorf("ask for metrics: %w", err)
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return t, fmt.Errorf("read metrics: %w", err)
	}
	for _, m := range families[movedMetric].GetMetric() {
		for _, l := range m.GetLabel() {
			switch {
			case l.GetName() != "direction":
			case l.GetValue() == "prefetch":
				t.in += m.GetCounter().GetValue()
			case l.GetValue() == "evict":
				t.out += m.GetCounter().GetValue()
			}
		}
	}
	return t, nil
}
