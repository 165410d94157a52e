// Package kamon shows an invoker's metrics once more under the names that
// OpenWhisk's own invoker gives them, which Kamon makes. Boards and alerts of an
// existing deployment ask for those. The names are made when they are read, from
// what has been measured anyway; nothing is measured twice. StatsD sends the same
// to a StatsD agent, as Kamon's reporter does.
//
// Two families of the original have no counterpart here: those of the JVM, and
// those of programs (docker, runc, kubectl) that this invoker does not start.
package kamon

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Gatherer adds Kamon's names to what Of gathers.
type Gatherer struct {
	Of prometheus.Gatherer
	// Topic is the invoker's, which is part of some names.
	Topic string
	// Tags makes labels of what is part of a name otherwise, as
	// whisk.metrics.kamon-tags-enabled has it.
	Tags bool
}

// Gather implements prometheus.Gatherer. Families come sorted by name.
func (g Gatherer) Gather() ([]*dto.MetricFamily, error) {
	ours, err := g.Of.Gather()
	all := slices.Concat(ours, g.translate(ours))
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, err
}

// translate gives what ours hold under Kamon's names alone.
func (g Gatherer) translate(ours []*dto.MetricFamily) []*dto.MetricFamily {
	made := map[string]*dto.MetricFamily{}
	for _, f := range ours {
		for _, r := range rules[f.GetName()] {
			for _, m := range f.GetMetric() {
				if r.takes(m) {
					g.add(made, f, m, r)
				}
			}
		}
	}
	return slices.Collect(maps.Values(made))
}

// add translates one metric. What a name holds for several states is a family
// of its own where there are no tags.
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

// letters replaces what a Prometheus name cannot hold.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == ':' {
			return r
		}
		return '_'
	}, s)
}
