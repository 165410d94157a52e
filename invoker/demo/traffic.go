package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// traffic is how much of the functions' memory was moved to the device and off
// it, in bytes.
type traffic struct{ in, out float64 }

// movedMetric is the invoker's count of it.
const movedMetric = "gpuwhisk_gpu_moved_bytes_total"

// measure asks how much was moved.
func measure(ctx context.Context, addr string) (t traffic, err error) {
	families, err := metrics(ctx, addr)
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
	return t, err
}

// runningMetric is the invoker's gauge of runs that hold a place on a device.
const runningMetric = "gpuwhisk_gpu_runs_in_flight"

// running asks how many runs there are on the devices.
func running(ctx context.Context, addr string) (n float64, err error) {
	families, err := metrics(ctx, addr)
	for _, m := range families[runningMetric].GetMetric() {
		n += m.GetGauge().GetValue()
	}
	return n, err
}

// metrics asks the invoker, which has them at an address of its own.
func metrics(ctx context.Context, addr string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return families, nil
}
