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

// StatsDConfig states where metrics go and how they are called there.
type StatsDConfig struct {
	Address  string // host:port of the agent
	Service  string // first part of every name
	Host     string // second part
	Interval time.Duration
	Packet   int // most bytes of a datagram
}

// StatsD sends metrics to an agent by UDP: counters as what was added since the
// time before, gauges as they are, times as one value and its frequency for each
// bucket in which there are new ones. The agent may be away; what it misses then
// is lost.
type StatsD struct {
	c      StatsDConfig
	of     Gatherer
	last   map[string]*dto.Metric // by name: what was sent of counters and times
	conn   net.Conn
	dialed time.Time
	stop   context.CancelFunc
	done   chan struct{}
}

// How long looking the agent up and handing a datagram to the kernel may take,
// and after what time an agent that moved is looked up anew.
const (
	dialTime   = time.Second
	writeTime  = 100 * time.Millisecond
	dialedTime = time.Minute
)

// NewStatsD begins to send; Close ends its goroutine.
func NewStatsD(c StatsDConfig, of Gatherer) *StatsD {
	s := &StatsD{c: c, of: of, last: map[string]*dto.Metric{}, done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.run(ctx)
	return s
}

// Close sends what is left and waits for it until ctx ends.
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

// flush sends everything once. Without a connection nothing is counted as sent.
func (s *StatsD) flush() {
	if !s.dial() {
		return
	}
	ours, _ := s.of.Of.Gather() // what it gives beside an error is right
	var packet []byte
	for _, line := range s.lines(s.of.translate(ours)) {
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
		return s.conn != nil // the old one may still do
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

// send loses the datagram where the agent is not there. An error may be about the
// one before, which did not arrive: then this one has not been sent yet.
func (s *StatsD) send(packet []byte) {
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.conn.Write(packet); err != nil {
		_, _ = s.conn.Write(packet)
	}
}

// lines are the metrics in StatsD's format, by name.
func (s *StatsD) lines(families []*dto.MetricFamily) (all []string) {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := s.name(f, m)
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				all = append(all, name+":"+number(added(s.last[name], m))+"|c")
				s.last[name] = m
			case dto.MetricType_GAUGE:
				// With a sign it would be a change.
				all = append(all, name+":"+number(max(0, math.Trunc(m.GetGauge().GetValue())))+"|g")
			case dto.MetricType_HISTOGRAM:
				unit := 1.0 // Kamon's reporter sends what has no unit as it is
				if strings.HasSuffix(f.GetName(), "_seconds") {
					unit = 1000
				}
				for _, t := range taken(s.last[name].GetHistogram(), m.GetHistogram()) {
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

// name is service.host.metric, and each label with its value. Prometheus' words
// for units at the end of a name are no part of Kamon's.
func (s *StatsD) name(f *dto.MetricFamily, m *dto.Metric) string {
	metric := f.GetName()
	for _, unit := range []string{"_total", "_seconds", "_bytes"} {
		metric = strings.TrimSuffix(metric, unit)
	}
	metric = sections.Replace(metric)
	// Counters and histograms stand in a part of their own, gauges do not
	// (OpenWhisk: WhiskStatsDMetricKeyGenerator).
	for _, kind := range []string{"counter", "histogram"} {
		if rest, ok := strings.CutPrefix(metric, kind+"_"); ok {
			metric = kind + "." + rest
		}
	}
	parts := []string{s.c.Service, sections.Replace(s.c.Host), metric}
	for _, l := range m.GetLabel() {
		parts = append(parts, sections.Replace(l.GetName()), sections.Replace(l.GetValue()))
	}
	return strings.Join(parts, ".")
}

// sections replaces what would end a part of a name or a line, as Kamon does
// and, for what only StatsD's protocol means, beyond it.
var sections = strings.NewReplacer(": ", "-", ":", "-", " ", "_", "/", "_", ".", "_", "|", "_", "@", "_", "#", "_", "\n", "_")

// number is a value to a thousandth.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// added is by how much a counter grew; one that fell began anew.
func added(last, now *dto.Metric) float64 {
	v := now.GetCounter().GetValue()
	if was := last.GetCounter().GetValue(); was <= v {
		return v - was
	}
	return v
}
