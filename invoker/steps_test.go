package invoker

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// What adapters report becomes metrics.
func TestStepsAreObserved(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := NewStepObserver(reg)
	s.Begin("database_saveDocument", 0)(nil)
	s.Begin("database_saveDocumentBulk", 3)(nil)
	s.Begin("invoker_docker.pull", 0)(errors.New("no such image"))
	s.ObserveRequest("GET", 401, 3*time.Millisecond)
	s.ObserveRequest("GET", 200, time.Millisecond)
	families, err := reg.Gather()
	check.NoError(t, err)
	series := map[string]int{}
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
		if f.GetName() == "gpuwhisk_batch_documents" {
			check.Equal(t, f.GetMetric()[0].GetHistogram().GetSampleSum(), 3, "documents of a batch")
		}
	}
	for name, n := range map[string]int{"gpuwhisk_steps_begun_total": 3, "gpuwhisk_step_seconds": 2, "gpuwhisk_step_failed_seconds": 1, "gpuwhisk_http_seconds": 2} {
		check.Equal(t, series[name], n, "%s", name)
	}
}
