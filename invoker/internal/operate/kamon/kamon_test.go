package kamon

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// measured is a registry with each family that has a name of Kamon's.
func measured(t *testing.T) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewRegistry()
	counter := func(name string, v float64, labels prometheus.Labels) {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, ConstLabels: labels})
		c.Add(v)
		reg.MustRegister(c)
	}
	gauge := func(name string, v float64, labels prometheus.Labels) {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, ConstLabels: labels})
		g.Set(v)
		reg.MustRegister(g)
	}
	times := func(name string, labels prometheus.Labels, seconds ...float64) {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, ConstLabels: labels, Buckets: []float64{0.1, 1}})
		for _, s := range seconds {
			h.Observe(s)
		}
		reg.MustRegister(h)
	}
	counter("gpuwhisk_activations_accepted_total", 87, nil)
	counter("gpuwhisk_activations_rescheduled_total", 3, nil)
	counter("gpuwhisk_container_starts_total", 24, prometheus.Labels{"state": "warmed"})
	counter("gpuwhisk_container_starts_total", 35, prometheus.Labels{"state": "cold"})
	for i, state := range []string{"active", "idle", "prewarm", "waiting", "limit"} {
		gauge("gpuwhisk_pool_memory_bytes", float64(i+1)*1024, prometheus.Labels{"state": state})
		gauge("gpuwhisk_pool_containers", float64(i+1), prometheus.Labels{"state": state})
	}
	for _, phase := range []string{"create", "init", "run", "logs"} {
		times("gpuwhisk_phase_seconds", prometheus.Labels{"phase": phase}, 0.05, 0.5)
	}
	counter("gpuwhisk_prewarm_missed_total", 2, prometheus.Labels{"kind": "nodejs:20", "memory": "256 MB"})
	counter("gpuwhisk_prewarm_expired_total", 1, prometheus.Labels{"kind": "nodejs:20", "memory": "256 MB"})
	counter("gpuwhisk_couchdb_cache_total", 35, prometheus.Labels{"outcome": "hit"})
	counter("gpuwhisk_couchdb_cache_total", 50, prometheus.Labels{"outcome": "miss"})
	gauge("gpuwhisk_kafka_lag", 4, nil)
	for _, step := range stepNames {
		counter("gpuwhisk_steps_begun_total", 6, prometheus.Labels{"step": step})
		times("gpuwhisk_step_seconds", prometheus.Labels{"step": step}, 0.05, 0.5)
		times("gpuwhisk_step_failed_seconds", prometheus.Labels{"step": step}, 0.05, 0.5, 0.6)
	}
	times("gpuwhisk_http_seconds", prometheus.Labels{"method": "get", "status": "200"}, 0.01)
	times("gpuwhisk_http_seconds", prometheus.Labels{"method": "post", "status": "401"}, 0.01)
	times("gpuwhisk_kafka_delay_seconds", nil, 0.01)
	times("gpuwhisk_batch_documents", nil, 5)
	counter("gpuwhisk_scheduler_creations_total", 7, prometheus.Labels{"class": "opened", "outcome": "opened"})
	counter("gpuwhisk_scheduler_creations_total", 2, prometheus.Labels{"class": "reschedule", "outcome": "ResourceNotEnoughError"})
	counter("gpuwhisk_scheduler_creations_total", 1, prometheus.Labels{"class": "failed", "outcome": "BlackBoxError"})
	counter("gpuwhisk_etcd_renewals_total", 9, prometheus.Labels{"lease": "77"})
	times("gpuwhisk_scheduler_pool_mebibytes", prometheus.Labels{"state": "busy"}, 256)
	times("gpuwhisk_scheduler_pool_containers", prometheus.Labels{"state": "warmed"}, 3)
	return reg
}

func text(t *testing.T, g Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	check.NoError(t, err)
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// A running OpenWhisk gave these names, without tags.
func TestNamesWithoutTags(t *testing.T) {
	got := text(t, Gatherer{Of: measured(t), Topic: "invoker0"})
	for _, want := range []string{
		"counter_invoker_activation_start_total 87",
		"counter_invoker_containerStart_warmed_counter_total 24",
		"counter_invoker_containerStart_cold_counter_total 35",
		"counter_invoker_activationInit_start_total 2",
		"counter_invoker_activationRun_start_total 2",
		"counter_invoker_collectLogs_start_total 2",
		"counter_invoker_docker_run_start_total 2",
		`histogram_invoker_activationRun_finish_seconds_bucket{le="0.1"} 1`,
		"histogram_invoker_activationInit_finish_seconds_count 2",
		"histogram_invoker_docker_run_finish_seconds_count 2",
		"counter_containerPool_rescheduledActivation_counter_total 3",
		"gauge_containerPool_activeCount_counter 1",
		"gauge_containerPool_idlesCount_counter 2",
		"gauge_containerPool_prewarmCount_counter 3",
		"gauge_containerPool_runBufferCount_counter 4",
		"gauge_containerPool_idlesSize_counter_bytes 2048",
		"gauge_kafka_invoker0_counter 4",
		"histogram_kafka_invoker0_delay_start_seconds_count 1",
		"counter_database_cacheHit_counter_total 35",
		"counter_database_cacheMiss_counter_total 50",
		"counter_database_getDocument_start_total 6",
		"histogram_database_getDocument_finish_seconds_count 2",
		"histogram_database_getDocumentAttachment_finish_seconds_count 2",
		"histogram_database_queryView_finish_seconds_count 2",
		"counter_database_saveDocument_start_total 6",
		"counter_database_saveDocumentBulk_error_total 3",
		"histogram_database_saveDocumentBulk_error_seconds_count 3",
		"histogram_database_batchSize_counter_count 1",
		"histogram_database_batchSize_counter_sum 5",
		"counter_invoker_docker_pull_start_total 6",
		"histogram_invoker_docker_pull_finish_seconds_count 2",
		"counter_http_get_200_counter_total 1",
		"histogram_http_post_401_counter_seconds_count 1",
		`counter_invoker_creation_counter_total{error="ResourceNotEnoughError",state="reschedule"} 2`,
		`counter_invoker_creation_counter_total{error="BlackBoxError",state="failed"} 1`,
		`counter_scheduler_keepAlive_counter_total{leaseId="77"} 9`,
		"histogram_invoker_containerPoolMemory_busy_counter_sum 256",
		"histogram_invoker_containerPoolContainer_warmed_counter_sum 3",
		"gpuwhisk_activations_accepted_total 87", // our own stay
	} {
		if !strings.Contains(got, "\n"+want+"\n") && !strings.HasPrefix(got, want+"\n") {
			t.Errorf("%s is not shown", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestNamesWithTags(t *testing.T) {
	got := text(t, Gatherer{Of: measured(t), Topic: "invoker0", Tags: true})
	for _, want := range []string{
		`counter_invoker_containerStart_counter_total{containerState="warmed"} 24`,
		`counter_invoker_containerStart_counter_total{containerState="cold"} 35`,
		`counter_containerPool_prewarmColdstart_counter_total{kind="nodejs:20",memory="256 MB"} 2`,
		`counter_containerPool_prewarmExpired_counter_total{kind="nodejs:20",memory="256 MB"} 1`,
		`gauge_kafka_topic_counter{topic="invoker0"} 4`,
		`counter_http_get_counter_total{statusCode="200"} 1`,
		`histogram_invoker_containerPoolMemory_counter_sum{state="busy"} 256`,
		`histogram_http_post_counter_seconds_count{statusCode="401"} 1`,
		`histogram_kafka_topic_start_seconds_count{topic="invoker0"} 1`,
	} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("%s is not shown", want)
		}
	}
	if strings.Contains(got, "containerStart_warmed") {
		t.Error("a name without tags is shown")
	}
	if t.Failed() {
		t.Log(got)
	}
}
