package kamon

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// rule states what one of our families is called by Kamon.
type rule struct {
	token string // <component>_<action>[.$]_<state>; $ stands for the part
	part  string // our label whose value takes the place of $, empty: the topic
	tag   string // the label that it becomes where there are tags
	only  string // value of our first label that the rule is for, empty for any
	shape shape
	// labels are further labels of ours by Kamon's name for them.
	labels map[string]string
}

// shape is what kind of metric a token is.
type shape uint8

const (
	counts  shape = iota // counter.<token>
	gauges               // gauge.<token>
	sizes                // gauge.<token>, in bytes
	timed                // counter.<token>_start and histogram.<token>_finish
	times                // histogram.<token>
	amounts              // histogram.<token>, of no unit
)

// rules by the name of our family. The tokens are those of OpenWhisk's
// LoggingMarkers.
var rules = map[string][]rule{
	"gpuwhisk_activations_accepted_total": {{token: "invoker_activation_start"}},
	"gpuwhisk_container_starts_total":     {{token: "invoker_containerStart.$_counter", part: "state", tag: "containerState"}},
	"gpuwhisk_activations_rescheduled_total": {
		{token: "containerPool_rescheduledActivation_counter"}},
	"gpuwhisk_phase_seconds": {
		{token: "invoker_activationInit", only: "init", shape: timed},
		{token: "invoker_activationRun", only: "run", shape: timed},
		{token: "invoker_collectLogs", only: "logs", shape: timed},
		{token: "invoker_docker.run", only: "create", shape: timed},
	},
	"gpuwhisk_pool_containers": {
		{token: "containerPool_activeCount_counter", only: "active", shape: gauges},
		{token: "containerPool_idlesCount_counter", only: "idle", shape: gauges},
		{token: "containerPool_prewarmCount_counter", only: "prewarm", shape: gauges},
		{token: "containerPool_runBufferCount_counter", only: "waiting", shape: gauges},
	},
	"gpuwhisk_pool_memory_bytes": {
		{token: "containerPool_activeSize_counter", only: "active", shape: sizes},
		{token: "containerPool_idlesSize_counter", only: "idle", shape: sizes},
		{token: "containerPool_prewarmSize_counter", only: "prewarm", shape: sizes},
		{token: "containerPool_runBufferSize_counter", only: "waiting", shape: sizes},
	},
	"gpuwhisk_prewarm_missed_total": {
		{token: "containerPool_prewarmColdstart_counter", labels: map[string]string{"kind": "kind", "memory": "memory"}}},
	"gpuwhisk_prewarm_expired_total": {
		{token: "containerPool_prewarmExpired_counter", labels: map[string]string{"kind": "kind", "memory": "memory"}}},
	"gpuwhisk_steps_begun_total": each(stepNames, func(s string) []rule { return []rule{{token: s + "_start", only: s}} }),
	"gpuwhisk_step_seconds":      each(stepNames, func(s string) []rule { return []rule{{token: s + "_finish", only: s, shape: times}} }),
	"gpuwhisk_step_failed_seconds": each(stepNames, func(s string) []rule {
		return []rule{{token: s + "_error", only: s}, {token: s + "_error", only: s, shape: times}}
	}),
	// Of OpenWhisk's scheduler mode.
	"gpuwhisk_scheduler_creations_total": each([]string{"reschedule", "failed"}, func(s string) []rule {
		return []rule{{token: "invoker_creation_counter", only: s, labels: map[string]string{"class": "state", "outcome": "error"}}}
	}),
	"gpuwhisk_etcd_renewals_total": {
		{token: "scheduler_keepAlive_counter", labels: map[string]string{"lease": "leaseId"}}},
	"gpuwhisk_scheduler_pool_mebibytes": {
		{token: "invoker_containerPoolMemory.$_counter", part: "state", tag: "state", shape: amounts}},
	"gpuwhisk_scheduler_pool_containers": {
		{token: "invoker_containerPoolContainer.$_counter", part: "state", tag: "state", shape: amounts}},
	"gpuwhisk_batch_documents": {{token: "database_batchSize_counter", shape: amounts}},
	"gpuwhisk_http_seconds": each([]string{"get", "post", "delete"}, func(m string) []rule {
		r := rule{token: "http_" + m + ".$_counter", part: "status", tag: "statusCode", only: m}
		timed := r
		timed.shape = times
		return []rule{r, timed}
	}),
	"gpuwhisk_kafka_lag":           {{token: "kafka_$_counter", tag: "topic", shape: gauges}},
	"gpuwhisk_kafka_delay_seconds": {{token: "kafka_$.delay_start", tag: "topic", shape: times}},
	"gpuwhisk_couchdb_cache_total": {
		{token: "database_cacheHit_counter", only: "hit"},
		{token: "database_cacheMiss_counter", only: "miss"},
	},
}

// stepNames are requests to the database and pulls of images.
var stepNames = []string{"database_getDocument", "database_getDocumentAttachment", "database_queryView",
	"database_saveDocument", "database_saveDocumentBulk", "invoker_docker.pull"}

// each makes the rules of several names.
func each(names []string, of func(string) []rule) (all []rule) {
	for _, n := range names {
		all = append(all, of(n)...)
	}
	return all
}

func (r rule) takes(m *dto.Metric) bool {
	return r.only == "" || len(m.GetLabel()) > 0 && m.GetLabel()[0].GetValue() == r.only
}

// name fills in the token. With tags the part after a dot goes, and a topic
// becomes its name.
func (r rule) name(part, topic string, tags bool) (string, []*dto.LabelPair) {
	token := r.token
	if r.tag == "" {
		return letters(token), nil
	}
	if r.part == "" {
		part = topic
	}
	if !tags {
		return letters(strings.Replace(token, "$", part, 1)), nil
	}
	token = strings.Replace(token, ".$", "", 1)
	token = strings.Replace(token, "$.delay", r.tag, 1)
	return letters(strings.Replace(token, "$", r.tag, 1)), []*dto.LabelPair{pair(r.tag, part)}
}

// outcome is one family that a metric goes into.
type outcome struct {
	name string
	kind dto.MetricType
	of   func(m *dto.Metric, labels []*dto.LabelPair) *dto.Metric
}

func (r rule) outcomes(name string) []outcome {
	switch r.shape {
	case gauges:
		return []outcome{{"gauge_" + name, dto.MetricType_GAUGE, gauge}}
	case sizes:
		return []outcome{{"gauge_" + name + "_bytes", dto.MetricType_GAUGE, gauge}}
	case timed:
		return []outcome{
			{"counter_" + name + "_start_total", dto.MetricType_COUNTER, count},
			{"histogram_" + name + "_finish_seconds", dto.MetricType_HISTOGRAM, histogram},
		}
	case amounts:
		return []outcome{{"histogram_" + name, dto.MetricType_HISTOGRAM, histogram}}
	case times:
		return []outcome{{"histogram_" + name + "_seconds", dto.MetricType_HISTOGRAM, histogram}}
	}
	return []outcome{{"counter_" + name + "_total", dto.MetricType_COUNTER, count}}
}

func gauge(m *dto.Metric, labels []*dto.LabelPair) *dto.Metric {
	return &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: m.GetGauge().Value}}
}

// count is a counter's value, or how often a time was taken.
func count(m *dto.Metric, labels []*dto.LabelPair) *dto.Metric {
	v := m.GetCounter().GetValue()
	if h := m.GetHistogram(); h != nil {
		v = float64(h.GetSampleCount())
	}
	return &dto.Metric{Label: labels, Counter: &dto.Counter{Value: &v}}
}

func histogram(m *dto.Metric, labels []*dto.LabelPair) *dto.Metric {
	return &dto.Metric{Label: labels, Histogram: m.GetHistogram()}
}
