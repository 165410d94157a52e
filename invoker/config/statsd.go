package config

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// StatsD is the agent that gets metrics by UDP, as Kamon's reporter sends them.
type StatsD struct {
	Hostname string // empty: nothing is sent
	Port     int
	Interval time.Duration
	// Packet is the most bytes of one datagram.
	Packet Size
	// Service begins every name.
	Service string
}

// Address is host:port of the agent.
func (s StatsD) Address() string { return net.JoinHostPort(s.Hostname, strconv.Itoa(s.Port)) }

// Sent reports whether metrics go to StatsD.
func (m Metrics) Sent() bool { return m.Kamon && m.StatsD.Hostname != "" }

// Bounds of what StatsD can be given: more often says nothing new and only costs,
// and a datagram holds no more.
const (
	leastTick  = 100 * time.Millisecond
	mostTick   = time.Hour
	mostPacket = 65507
)

func statsdKeys(s *StatsD) []*Key {
	return []*Key{
		{Name: "kamon.statsd.hostname", value: text(&s.Hostname),
			Doc: "with kamon-enabled, send what OpenWhisk's invoker measures to the StatsD agent of this name, by UDP; empty sends nothing"},
		{Name: "kamon.statsd.port", Default: "8125", value: integer(&s.Port, 1, 65535),
			Doc: "port of the StatsD agent"},
		{Name: "kamon.metric.tick-interval", also: []string{"kamon.statsd.flush-interval"}, Default: "1 second", value: duration(&s.Interval),
			Doc: "how often metrics are sent to StatsD, from 100 ms to 1 h"},
		{Name: "kamon.statsd.max-packet-size", Default: "1 KiB", value: size(&s.Packet, 64),
			Doc: "most bytes of one packet to StatsD, 65507 at most; what the network carries in one piece gets lost the least"},
		{Name: "kamon.environment.service", Default: "openwhisk-statsd", value: text(&s.Service),
			Doc: "first part of the names in StatsD: service.invokerN.name, then each label and its value"},
	}
}

// check refuses what cannot be sent.
func (s StatsD) check(demand func(bool, string, ...any)) {
	demand(s.Interval >= leastTick && s.Interval <= mostTick, "kamon.metric.tick-interval %s is not from 100 ms to 1 h", formatDuration(s.Interval))
	demand(s.Packet <= mostPacket, "kamon.statsd.max-packet-size %v is above the %d bytes that a datagram holds", s.Packet, mostPacket)
	demand(s.Service != "" && !strings.ContainsAny(s.Service, ":|@ \t\r\n"),
		"kamon.environment.service %q does not begin a name in StatsD: it must not be empty nor have blanks, ':', '|' or '@'", s.Service)
}
