package invoker

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/steps"
	"github.com/prometheus/client_golang/prometheus"
)

// What adapters tell becomes the original's lines, and metrics.
func TestStepsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, reg := &said{}, prometheus.NewRegistry()
		s := NewSteps(true, reg, slog.New(slog.NewTextHandler(log, nil)))
		theirs := activation.NewTransID("theirs", time.Now().Add(-5*time.Millisecond).UnixMilli(), false)
		ctx := steps.With(t.Context(), theirs)
		step, done := s.Saves("activations", "guest/1")
		ended := steps.Begin(ctx, s, step)
		time.Sleep(7 * time.Millisecond) // of the test's clock
		ended(done, nil)
		steps.Begin(t.Context(), s, steps.Step{Token: "invoker_docker.pull", Class: "DockerClientWithFileAccess", Text: "running docker pull a/b", System: "sid_invokerWarmup"})("", errors.New("no such image"))
		s.Answered("GET", "/isEnabled", 401, "somebody", 3*time.Millisecond)
		s.Answered("GET", "/ping", 200, "probe", time.Millisecond)
		got := log.lines()
		want := []string{
			`INFO CouchDbRestStore theirs [PUT] 'activations' saving document: 'id: guest/1, rev: null' [marker:database_saveDocument_start:5]`,
			`INFO CouchDbRestStore theirs [PUT] 'activations' completed document: 'id: guest/1, rev: null' [marker:database_saveDocument_finish:12:7]`,
			`INFO DockerClientWithFileAccess sid_invokerWarmup running docker pull a/b [marker:invoker_docker.pull_start:0]`,
			`ERROR DockerClientWithFileAccess sid_invokerWarmup no such image [marker:invoker_docker.pull_error:0:0]`,
			`INFO BasicHttpService somebody  [marker:http_get.401_counter:3:3]`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		series := map[string]int{}
		for _, f := range families {
			series[f.GetName()] = len(f.GetMetric())
		}
		for name, n := range map[string]int{"gpuwhisk_steps_begun_total": 2, "gpuwhisk_step_seconds": 1, "gpuwhisk_step_failed_seconds": 1, "gpuwhisk_http_seconds": 2} {
			if series[name] != n {
				t.Errorf("%s: %d series, want %d", name, series[name], n)
			}
		}
	})
}

// Off, only metrics are made.
func TestStepsOff(t *testing.T) {
	log, reg := &said{}, prometheus.NewRegistry()
	s := NewSteps(false, reg, slog.New(slog.NewTextHandler(log, nil)))
	step, done := s.Saves("activations", "guest/1")
	steps.Begin(t.Context(), s, step)(done, nil)
	steps.Begin(t.Context(), s, steps.Step{Token: "database_saveDocumentBulk", Documents: 3})("", nil)
	s.Answered("POST", "/disable", 200, "x", time.Millisecond)
	families, _ := reg.Gather()
	for _, f := range families {
		if f.GetName() == "gpuwhisk_batch_documents" && f.GetMetric()[0].GetHistogram().GetSampleSum() != 3 {
			t.Errorf("a batch of 3 is %v", f)
		}
	}
	if log.buf.Len() > 0 {
		t.Errorf("said %s", log.buf.String())
	}
	steps.Begin(t.Context(), nil, step)(done, nil)
	steps.Begin(t.Context(), (*Steps)(nil), step)(done, nil)
}
