package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
)

// traffic is how much of a function's memory was moved to the device and off
// it, in bytes.
type traffic struct{ in, out float64 }

// movedMetric is the invoker's count of it.
const movedMetric = "gpuwhisk_gpu_moved_bytes_total"

// measure asks the invoker's metrics, which are at an address of its own, how
// much was moved for each function.
func measure(ctx context.Context, addr string, functions []Function) (map[string]traffic, error) {
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
	byAction := map[string]string{}
	for _, f := range functions {
		byAction[standalone.Guest().Name+"/"+f.Name] = f.Name
	}
	all := map[string]traffic{}
	for _, m := range families[movedMetric].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		name := byAction[labels["action"]]
		t := all[name]
		switch labels["direction"] {
		case "prefetch":
			t.in += m.GetCounter().GetValue()
		case "evict":
			t.out += m.GetCounter().GetValue()
		}
		all[name] = t
	}
	return all, nil
}
