package kamon

import (
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// rule translates one of our families into Kamon's names.
type rule struct {
	token string // <component>_<action>[.$]_<state>; $ stands for the part
	forms []form
	part  string // our label whose value replaces $; empty means the topic
	tag   string // Kamon's label for the part, used with tags
	only  string // the rule applies to this value of our first label; empty means any
	// labels maps further labels of ours to Kamon's labels.
	labels map[string]string
}

// form makes a family of a token: its type, and the text around the token.
type form struct {
	kind          dto.MetricType
	before, after string
}

var (
	counts  = []form{{dto.MetricType_COUNTER, "counter_", "_total"}}
	gauges  = []form{{dto.MetricType_GAUGE, "gauge_", ""}}
	sizes   = []form{{dto.MetricType_GAUGE, "gauge_", "_bytes"}}
	times   = []form{{dto.MetricType_HISTOGRAM, "histogram_", "_seconds"}}
	values  = []form{{dto.MetricType_HISTOGRAM, "histogram_", ""}}
	counted = slices.Concat(counts, times)
	// timed counts the starts and measures the ends.
	timed = []form{{dto.MetricType_COUNTER, "counter_", "_start_total"}, {dto.MetricType_HISTOGRAM, "histogram_", "_finish_seconds"}}
)

// kindLabels are the labels that name a prewarmed container.
var kindLabels = map[string]string{"kind": "kind", "memory": "memory"}

// rules by the name of our family. The tokens are those of OpenWhisk's
// LoggingMarkers.
var rules = map[string][]rule{
	"gpuwhisk_activations_accepted_total":    {{token: "invoker_activation_start", forms: counts}},
	"gpuwhisk_container_starts_total":        {{token: "invoker_containerStart.$_counter", forms: counts, part: "state", tag: "containerState"}},
	"gpuwhisk_activations_rescheduled_total": {{token: "containerPool_rescheduledActivation_counter", forms: counts}},
	"gpuwhisk_phase_seconds": {
		{token: "invoker_activationInit", only: "init", forms: timed},
		{token: "invoker_activationRun", only: "run", forms: timed},
		{token: "invoker_collectLogs", only: "logs", forms: timed},
		{token: "invoker_docker.run", only: "create", forms: timed},
	},
	"gpuwhisk_pool_containers": {
		{token: "containerPool_activeCount_counter", only: "active", forms: gauges},
		{token: "containerPool_idlesCount_counter", only: "idle", forms: gauges},
		{token: "containerPool_prewarmCount_counter", only: "prewarm", forms: gauges},
		{token: "containerPool_runBufferCount_counter", only: "waiting", forms: gauges},
	},
	"gpuwhisk_pool_memory_bytes": {
		{token: "containerPool_activeSize_counter", only: "active", forms: sizes},
		{token: "containerPool_idlesSize_counter", only: "idle", forms: sizes},
		{token: "containerPool_prewarmSize_counter", only: "prewarm", forms: sizes},
		{token: "containerPool_runBufferSize_counter", only: "waiting", forms: sizes},
	},
	"gpuwhisk_prewarm_missed_total":  {{token: "containerPool_prewarmColdstart_counter", forms: counts, labels: kindLabels}},
	"gpuwhisk_prewarm_expired_total": {{token: "containerPool_prewarmExpired_counter", forms: counts, labels: kindLabels}},
	"gpuwhisk_steps_begun_total":     forEach(rule{token: "*_start", forms: counts}, stepNames...),
	"gpuwhisk_step_seconds":          forEach(rule{token: "*_finish", forms: times}, stepNames...),
	"gpuwhisk_step_failed_seconds":   forEach(rule{token: "*_error", forms: counted}, stepNames...),
	"gpuwhisk_batch_documents":       {{token: "database_batchSize_counter", forms: values}},
	"gpuwhisk_http_seconds":          forEach(rule{token: "http_*.$_counter", forms: counted, part: "status", tag: "statusCode"}, "get", "post", "delete"),
	"gpuwhisk_kafka_lag":             {{token: "kafka_$_counter", tag: "topic", forms: gauges}},
	"gpuwhisk_kafka_delay_seconds":   {{token: "kafka_$.delay_start", tag: "topic", forms: times}},
	"gpuwhisk_couchdb_cache_total": {
		{token: "database_cacheHit_counter", only: "hit", forms: counts},
		{token: "database_cacheMiss_counter", only: "miss", forms: counts},
	},
	// Of OpenWhisk's scheduler mode.
	"gpuwhisk_scheduler_creations_total": forEach(rule{token: "invoker_creation_counter", forms: counts,
		labels: map[string]string{"class": "state", "outcome": "error"}}, "reschedule", "failed"),
	"gpuwhisk_etcd_renewals_total":       {{token: "scheduler_keepAlive_counter", forms: counts, labels: map[string]string{"lease": "leaseId"}}},
	"gpuwhisk_scheduler_pool_mebibytes":  {{token: "invoker_containerPoolMemory.$_counter", part: "state", tag: "state", forms: values}},
	"gpuwhisk_scheduler_pool_containers": {{token: "invoker_containerPoolContainer.$_counter", part: "state", tag: "state", forms: values}},
}

// stepNames are requests to the database and pulls of images.
var stepNames = []string{"database_getDocument", "database_getDocumentAttachment", "database_queryView",
	"database_saveDocument", "database_saveDocumentBulk", "invoker_docker.pull"}

// forEach returns a copy of the rule for each value of our first label. The value replaces
// the star in the token.
func forEach(r rule, values ...string) (all []rule) {
	for _, v := range values {
		one := r
		one.token, one.only = strings.Replace(r.token, "*", v, 1), v
		all = append(all, one)
	}
	return all
}

func (r rule) matches(m *dto.Metric) bool {
	return r.only == "" || len(m.GetLabel()) > 0 && m.GetLabel()[0].GetValue() == r.only
}

// name fills in the token. With tags, the part after the dot is removed and a topic is
// replaced by the name of its tag; the value goes into a label.
func (r rule) name(part, topic string, tags bool) (string, []*dto.LabelPair) {
	if r.part == "" {
		part = topic
	}
	switch {
	case r.tag == "":
		return prometheusName(r.token), nil
	case !tags:
		return prometheusName(strings.Replace(r.token, "$", part, 1)), nil
	}
	token := strings.NewReplacer("$.delay", r.tag, ".$", "", "$", r.tag).Replace(r.token)
	return prometheusName(token), []*dto.LabelPair{pair(r.tag, part)}
}

// metric converts one of our metrics to the form. As a counter, a histogram gives the
// number of its samples.
func (f form) metric(m *dto.Metric, labels []*dto.LabelPair) *dto.Metric {
	switch f.kind {
	case dto.MetricType_GAUGE:
		return &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: m.GetGauge().Value}}
	case dto.MetricType_HISTOGRAM:
		return &dto.Metric{Label: labels, Histogram: m.GetHistogram()}
	}
	v := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	return &dto.Metric{Label: labels, Counter: &dto.Counter{Value: &v}}
}
