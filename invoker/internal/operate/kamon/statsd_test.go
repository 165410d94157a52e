package kamon

import (
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// lines of a StatsD that sends nowhere.
func lines(t *testing.T, s *StatsD) []string {
	t.Helper()
	ours, err := s.gatherer.Of.Gather()
	check.NoError(t, err)
	return s.lines(s.gatherer.translate(ours))
}

func silent(of Gatherer) *StatsD {
	return &StatsD{c: StatsDConfig{Service: "openwhisk-statsd", Host: "invoker0", Packet: 1024}, gatherer: of, last: map[string]*dto.Metric{}}
}

func TestStatsDNames(t *testing.T) {
	plain := lines(t, silent(Gatherer{Of: measured(t), Topic: "invoker0"}))
	tagged := lines(t, silent(Gatherer{Of: measured(t), Topic: "invoker0", Tags: true}))
	for want, in := range map[string][]string{
		"openwhisk-statsd.invoker0.counter.invoker_activation_start:87|c":                                           plain,
		"openwhisk-statsd.invoker0.counter.invoker_containerStart_cold_counter:35|c":                                plain,
		"openwhisk-statsd.invoker0.counter.invoker_activationRun_start:2|c":                                         plain,
		"openwhisk-statsd.invoker0.counter.database_cacheHit_counter:35|c":                                          plain,
		"openwhisk-statsd.invoker0.gauge_containerPool_runBufferCount_counter:4|g":                                  plain,
		"openwhisk-statsd.invoker0.gauge_containerPool_idlesSize_counter:2048|g":                                    plain,
		"openwhisk-statsd.invoker0.gauge_kafka_invoker0_counter:4|g":                                                plain,
		"openwhisk-statsd.invoker0.histogram.kafka_invoker0_delay_start:10|ms":                                      plain,
		"openwhisk-statsd.invoker0.histogram.database_batchSize_counter:5|ms":                                       plain,
		"openwhisk-statsd.invoker0.histogram.invoker_activationRun_finish:45|ms":                                    plain,
		"openwhisk-statsd.invoker0.histogram.invoker_activationRun_finish:505|ms":                                   plain,
		"openwhisk-statsd.invoker0.counter.invoker_containerStart_counter.containerState.warmed:24|c":               tagged,
		"openwhisk-statsd.invoker0.counter.containerPool_prewarmColdstart_counter.kind.nodejs-20.memory.256_MB:2|c": tagged,
		"openwhisk-statsd.invoker0.histogram.kafka_topic_start.topic.invoker0:10|ms":                                tagged,
	} {
		check.Includes(t, in, want)
	}
	for _, line := range slices.Concat(plain, tagged) {
		check.Lacks(t, line, "gpuwhisk")
		check.That(t, strings.HasPrefix(line, "openwhisk-statsd.invoker0."), "%s", line)
	}
	if t.Failed() {
		t.Log(strings.Join(slices.Concat(plain, tagged), "\n"))
	}
}

// A value is sent once, and is never negative.
func TestStatsDSendsGrowth(t *testing.T) {
	reg := prometheus.NewRegistry()
	accepted := prometheus.NewCounter(prometheus.CounterOpts{Name: "gpuwhisk_activations_accepted_total"})
	lag := prometheus.NewGauge(prometheus.GaugeOpts{Name: "gpuwhisk_kafka_lag"})
	delay := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "gpuwhisk_kafka_delay_seconds", Buckets: []float64{0.1, 1}})
	reg.MustRegister(accepted, lag, delay)
	s := silent(Gatherer{Of: reg, Topic: "invoker0"})
	const p = "openwhisk-statsd.invoker0."
	for _, step := range []struct {
		accepted, lag float64
		delays        []float64
		want          []string
	}{
		{3, 7, nil, []string{p + "counter.invoker_activation_start:3|c", p + "gauge_kafka_invoker0_counter:7|g"}},
		{2, -1, []float64{0.04}, []string{p + "counter.invoker_activation_start:2|c", p + "gauge_kafka_invoker0_counter:0|g", p + "histogram.kafka_invoker0_delay_start:40|ms"}},
		{0, 1, []float64{0.25, 0.75}, []string{p + "counter.invoker_activation_start:0|c", p + "gauge_kafka_invoker0_counter:1|g", p + "histogram.kafka_invoker0_delay_start:500|ms|@0.5"}},
		{0, 1, nil, []string{p + "counter.invoker_activation_start:0|c", p + "gauge_kafka_invoker0_counter:1|g"}},
	} {
		accepted.Add(step.accepted)
		lag.Set(step.lag)
		for _, d := range step.delays {
			delay.Observe(d)
		}
		check.EqualSlices(t, lines(t, s), step.want)
	}
	// A counter that started again at 0.
	check.Equal(t, growth(&dto.Metric{Counter: &dto.Counter{Value: ptr(9.0)}}, &dto.Metric{Counter: &dto.Counter{Value: ptr(1.0)}}), 1)
}

// The values lie in their buckets, and their sum is the sum of the samples.
func TestTimesKeepTheirSum(t *testing.T) {
	for _, c := range []struct {
		before, since []float64
		want          []timing // bounds aside
	}{
		{nil, nil, nil},
		{nil, []float64{0.02}, []timing{{value: 0.02, times: 1}}},
		{[]float64{0.05, 9}, []float64{0.3, 0.5, 0.4}, []timing{{value: 0.4, times: 3}}},
		{nil, []float64{0, 0.1, 1, 1}, []timing{{times: 2}, {times: 2}}},
		{nil, []float64{100, 300}, []timing{{value: 200, times: 2}}},
		{[]float64{2}, []float64{0.05, 20}, []timing{{times: 1}, {times: 1}}},
	} {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{0.1, 1, 10}})
		read := func() *dto.Histogram {
			var m dto.Metric
			check.NoError(t, h.Write(&m))
			return m.GetHistogram()
		}
		for _, v := range c.before {
			h.Observe(v)
		}
		last, sum := read(), 0.0
		for _, v := range c.since {
			h.Observe(v)
			sum += v
		}
		got, made := newSamples(last, read()), 0.0
		for _, g := range got {
			made += g.value * g.times
			check.AtLeast(t, g.value, g.low, "%v: %+v", c.since, g)
			check.AtMost(t, g.value, g.upp, "%v: %+v", c.since, g)
		}
		check.AtMost(t, math.Abs(made-sum), 1e-9, "%v: %+v", c.since, got)
		check.Equal(check.Must(t), len(got), len(c.want), "%v: %+v", c.since, got)
		for i, w := range c.want {
			check.Equal(t, got[i].times, w.times, "%v: %+v", c.since, got)
			if len(c.want) == 1 {
				check.AtMost(t, math.Abs(got[i].value-w.value), 1e-9, "%v: %+v", c.since, got)
			}
		}
		check.Equal(t, len(newSamples(read(), read())), 0, "%v", c.since)
		if anew := newSamples(&dto.Histogram{SampleCount: ptr(uint64(1000))}, read()); len(c.since) > 0 && len(anew) == 0 {
			t.Errorf("%v: a histogram that began anew is not sent", c.since)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// agent is a StatsD on loopback.
func agent(t *testing.T) (addr string, read func() string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	check.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().String(), func() string {
		buf := make([]byte, 1<<16)
		n, _, err := conn.ReadFrom(buf)
		check.NoError(t, err)
		return string(buf[:n])
	}
}

// The last values leave at the end, in packets that hold whole lines and no more
// bytes than they may.
func TestStatsDPackets(t *testing.T) {
	addr, read := agent(t)
	g := Gatherer{Of: measured(t), Topic: "invoker0"}
	want := lines(t, silent(g))
	const most = 200
	s := NewStatsD(StatsDConfig{Address: addr, Service: "openwhisk-statsd", Host: "invoker0", Interval: time.Hour, Packet: most}, g)
	s.Close(t.Context())
	var got []string
	packets := 0
	for len(got) < len(want) {
		p := read()
		packets++
		if len(p) > most {
			t.Errorf("a packet of %d bytes", len(p))
		}
		got = append(got, strings.Split(p, "\n")...)
	}
	check.EqualSlices(t, got, want)
	if packets > len(want)*2/3 {
		t.Errorf("%d packets for %d lines", packets, len(want))
	}
}

// Metrics leave each interval without anybody's doing.
func TestStatsDTicks(t *testing.T) {
	addr, read := agent(t)
	s := NewStatsD(StatsDConfig{Address: addr, Service: "s", Host: "invoker0", Interval: time.Millisecond, Packet: 65507},
		Gatherer{Of: measured(t), Topic: "invoker0"})
	defer s.Close(t.Context())
	check.Contains(t, read(), "s.invoker0.counter.invoker_activation_start:87|c")
	check.Contains(t, read(), "s.invoker0.counter.invoker_activation_start:0|c")
}

// Metrics that are sent while the agent is away are lost. An agent whose address is found
// late gets the growth since the start.
func TestStatsDAgentAway(t *testing.T) {
	addr, read := agent(t)
	s := silent(Gatherer{Of: measured(t), Topic: "invoker0"})
	s.c.Packet = 65507
	s.c.Address = "127.0.0.1:no-such-service"
	s.flush()
	if len(s.last) != 0 {
		t.Error("figures that were sent nowhere count as sent")
	}
	s.c.Address = addr
	s.flush()
	check.Contains(t, read(), "counter.invoker_activation_start:87|c")
	s.hangUp()
	gone, err := net.ListenPacket("udp", "127.0.0.1:0")
	check.NoError(t, err)
	s.c.Address = gone.LocalAddr().String()
	_ = gone.Close()
	for range 10 {
		s.flush() // returns; metrics that no server received are lost
	}
	s.hangUp()
	s.c.Address = addr
	s.flush()
	check.Contains(t, read(), "counter.invoker_activation_start:0|c")
}
