package kamon

import (
	"context"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// StatsDConfig holds the address of the agent and the parts of the metrics' names.
type StatsDConfig struct {
	Address  string // host:port of the agent
	Service  string // first part of every name
	Host     string // second part
	Interval time.Duration
	Packet   int // most bytes of a datagram
}

// StatsD sends metrics to an agent by UDP: counters as their growth since the previous
// flush, gauges as their values, histograms as one value and its frequency for each
// bucket with new samples. Metrics that are sent while the agent is away are lost.
type StatsD struct {
	c        StatsDConfig
	gatherer Gatherer
	last     map[string]*dto.Metric // counters and histograms at the previous flush, by name
	conn     net.Conn
	dialed   time.Time
	stop     context.CancelFunc
	done     chan struct{}
}

// Limits of the look-up of the agent's address and of a write, and the time after which
// the address is looked up again.
const (
	dialTime   = time.Second
	writeTime  = 100 * time.Millisecond
	dialedTime = time.Minute
)

// NewStatsD starts a goroutine that sends metrics until Close.
func NewStatsD(c StatsDConfig, of Gatherer) *StatsD {
	s := &StatsD{c: c, gatherer: of, last: map[string]*dto.Metric{}, done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.run(ctx)
	return s
}

// Close sends the metrics a last time, and returns when they are sent or ctx ends.
func (s *StatsD) Close(ctx context.Context) {
	s.stop()
	select {
	case <-s.done:
	case <-ctx.Done():
	}
}

func (s *StatsD) run(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(s.c.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.flush()
		case <-ctx.Done():
			s.flush()
			s.hangUp()
			return
		}
	}
}

// flush sends all metrics once. Without a connection it does nothing, and the next flush
// includes the growth.
func (s *StatsD) flush() {
	if !s.dial() {
		return
	}
	ours, _ := s.gatherer.Of.Gather() // families that come with an error are valid
	var packet []byte
	for _, line := range s.lines(s.gatherer.translate(ours)) {
		if len(packet) > 0 && len(packet)+1+len(line) > s.c.Packet {
			s.send(packet)
			packet = packet[:0]
		}
		if len(packet) > 0 {
			packet = append(packet, '\n')
		}
		packet = append(packet, line...)
	}
	if len(packet) > 0 {
		s.send(packet)
	}
}

func (s *StatsD) dial() bool {
	if s.conn != nil && time.Since(s.dialed) < dialedTime {
		return true
	}
	conn, err := net.DialTimeout("udp", s.c.Address, dialTime)
	if err != nil {
		return s.conn != nil // the old connection may still work
	}
	s.hangUp()
	s.conn, s.dialed = conn, time.Now()
	return true
}

func (s *StatsD) hangUp() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// send sends a datagram, which is lost if the agent is away. A write may return the error
// of the previous datagram without sending, so send tries twice.
func (s *StatsD) send(packet []byte) {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.conn.Write(packet); err != nil {
		_, _ = s.conn.Write(packet)
	}
}

// lines returns the metrics in StatsD's format, sorted by name.
func (s *StatsD) lines(families []*dto.MetricFamily) (all []string) {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := s.name(f, m)
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				all = append(all, name+":"+number(growth(s.last[name], m))+"|c")
				s.last[name] = m
			case dto.MetricType_GAUGE:
				// With a sign it would be a change.
				all = append(all, name+":"+number(max(0, math.Trunc(m.GetGauge().GetValue())))+"|g")
			case dto.MetricType_HISTOGRAM:
				unit := 1.0 // Kamon's reporter sends values without a unit unchanged
				if strings.HasSuffix(f.GetName(), "_seconds") {
					unit = 1000
				}
				for _, t := range newSamples(s.last[name].GetHistogram(), m.GetHistogram()) {
					t.value *= unit
					all = append(all, name+":"+t.String())
				}
				s.last[name] = m
			}
		}
	}
	slices.Sort(all)
	return all
}

// name returns service.host.metric, followed by each label and its value. Kamon's names
// do not end in Prometheus' words for units.
func (s *StatsD) name(f *dto.MetricFamily, m *dto.Metric) string {
	metric := f.GetName()
	for _, unit := range []string{"_total", "_seconds", "_bytes"} {
		metric = strings.TrimSuffix(metric, unit)
	}
	metric = statsDName.Replace(metric)
	// The words counter and histogram are parts of their own, unlike gauge
	// (OpenWhisk: WhiskStatsDMetricKeyGenerator).
	for _, kind := range []string{"counter", "histogram"} {
		if rest, ok := strings.CutPrefix(metric, kind+"_"); ok {
			metric = kind + "." + rest
		}
	}
	parts := []string{s.c.Service, statsDName.Replace(s.c.Host), metric}
	for _, l := range m.GetLabel() {
		parts = append(parts, statsDName.Replace(l.GetName()), statsDName.Replace(l.GetValue()))
	}
	return strings.Join(parts, ".")
}

// statsDName replaces the characters that separate names, values and lines. Kamon replaces
// the first few; the others have a meaning in StatsD's protocol.
var statsDName = strings.NewReplacer(": ", "-", ":", "-", " ", "_", "/", "_", ".", "_", "|", "_", "@", "_", "#", "_", "\n", "_")

// number formats a value with at most three decimals.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// growth returns the growth of a counter. A counter that fell has started again at 0.
func growth(last, now *dto.Metric) float64 {
	v := now.GetCounter().GetValue()
	if was := last.GetCounter().GetValue(); was <= v {
		return v - was
	}
	return v
}
