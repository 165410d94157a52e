package enginetest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Benchmark measures the life of a container whose image is present: start (from the create
// to the proxy's answer to /init), pause, resume and remove. It reports the medians.
func Benchmark(b *testing.B, host Host) {
	e := host.start(b, nil)
	e.benchRound(map[string][]time.Duration{}) // the first start fills caches
	took := map[string][]time.Duration{}
	for b.Loop() {
		e.benchRound(took)
	}
	for name, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms/"+name)
		b.ReportMetric(float64(all[len(all)*9/10].Microseconds())/1000, fmt.Sprintf("p90-ms/%s", name))
	}
	b.ReportMetric(0, "ns/op")
}

func (s *subject) benchRound(took map[string][]time.Duration) {
	began := time.Now()
	lap := func(name string) {
		took[name] = append(took[name], time.Since(began))
		began = time.Now()
	}
	h := s.create()
	s.awaitInit(h.Addr)
	lap("start")
	check.NoError(s.t, s.Pause(s.t.Context(), h.ID))
	lap("pause")
	check.NoError(s.t, s.Resume(s.t.Context(), h.ID))
	lap("resume")
	check.NoError(s.t, s.Remove(s.t.Context(), h.ID))
	lap("remove")
}

// awaitInit sends /init until the proxy answers.
func (s *subject) awaitInit(addr string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		resp, err := http.Post("http://"+addr+"/init", "application/json", strings.NewReader("{}"))
		if err == nil {
			resp.Body.Close()
			check.Equal(s.t, resp.StatusCode, http.StatusOK)
			return
		}
		check.That(check.Must(s.t), !time.Now().After(deadline), "no answer to /init: %v", err)
	}
}
