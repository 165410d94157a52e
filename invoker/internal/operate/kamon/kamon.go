// Package kamon shows the invoker's metrics a second time, under the names that Kamon
// gives them in OpenWhisk's own invoker. Boards and alerts of existing deployments use
// these names. The metrics are translated when they are read; nothing is measured
// twice. StatsD sends the same metrics to a StatsD agent, as Kamon's reporter does.
//
// The metrics of the JVM, and of programs that this invoker does not start (docker, runc,
// kubectl), have no counterpart.
package kamon

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Gatherer gathers the metrics of Of, and adds them under Kamon's names.
type Gatherer struct {
	Of prometheus.Gatherer
	// Topic is the invoker's topic, which is part of some names.
	Topic string
	// Tags turns variable parts of names into labels (whisk.metrics.kamon-tags-enabled).
	Tags bool
}

// Gather implements prometheus.Gatherer. It sorts the families by name.
func (g Gatherer) Gather() ([]*dto.MetricFamily, error) {
	ours, err := g.Of.Gather()
	all := slices.Concat(ours, g.translate(ours))
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, err
}

// translate returns the families under Kamon's names, without ours.
func (g Gatherer) translate(ours []*dto.MetricFamily) []*dto.MetricFamily {
	made := map[string]*dto.MetricFamily{}
	for _, f := range ours {
		for _, r := range rules[f.GetName()] {
			for _, m := range f.GetMetric() {
				if r.matches(m) {
					g.add(made, f, m, r)
				}
			}
		}
	}
	return slices.Collect(maps.Values(made))
}

// add translates one metric. Without tags, each state of a metric becomes a family of
// its own.
func (g Gatherer) add(made map[string]*dto.MetricFamily, from *dto.MetricFamily, m *dto.Metric, r rule) {
	token, labels := r.name(label(m, r.part), g.Topic, g.Tags)
	for our, theirs := range r.labels {
		labels = append(labels, pair(theirs, label(m, our)))
	}
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, f := range r.forms {
		name := f.before + token + f.after
		if made[name] == nil {
			made[name] = &dto.MetricFamily{Name: &name, Type: &f.kind, Help: new("Kamon's name for " + from.GetName() + ".")}
		}
		made[name].Metric = append(made[name].Metric, f.metric(m, labels))
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// prometheusName replaces the characters that Prometheus does not allow in names.
func prometheusName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == ':' {
			return r
		}
		return '_'
	}, s)
}
