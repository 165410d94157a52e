package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

func scenarios() map[string]func(*many) func(i int) {
	return map[string]func(*many) func(i int){
		"host": (*many).host, "tokens": (*many).tokens, "device": (*many).device, "all": (*many).all,
		"refuse": (*many).refuse, "expire": (*many).expire,
	}
}

// BenchmarkManyFlows measures the cost of one event, orders included, with 10,000 functions
// that have or had queued work. The maximum, max-ns, depends mostly on the machine.
//
//	host:    an invocation arrives, host memory is short and others have the device
//	tokens:  D falls and rises between 1 and 2
//	device:  one of two devices is lost, and back
//	all:     every device is lost, and one is back
//	refuse:  a Tick refuses invocations that waited too long for a lost device
//	expire:  a Tick ends the TTL of functions, and forgets them
//
// Goal: below 1 ms.
func BenchmarkManyFlows(b *testing.B) {
	for name, f := range scenarios() {
		b.Run(name, func(b *testing.B) {
			m := &many{b: b, flows: 10_000}
			event := f(m)
			m.took = m.took[:0]
			for i := 0; b.Loop(); i++ {
				event(i)
			}
			slices.Sort(m.took)
			b.ReportMetric(float64(m.took[len(m.took)/2]), "median-ns")
			b.ReportMetric(float64(m.took[len(m.took)*99/100]), "p99-ns")
			b.ReportMetric(float64(m.took[len(m.took)-1]), "max-ns")
		})
	}
}

// visits counts the flows that one event of a scheduler looked at.
type visits struct {
	Policy
	states, orders int
}

func (l *visits) State(id sched.FlowID) sched.State {
	l.states++
	return l.Policy.State(id)
}

// many is a scheduler with very many flows.
type many struct {
	b     testing.TB
	flows int
	event visits // of this event
	most  visits // of any
	s     *Scheduler
	now   time.Duration
	id    uint64
	took  []time.Duration
	out   []Order
}

// begin makes the scheduler.
func (m *many) begin(devices int, adjust func(*Config)) {
	c := config("sticky-plus", devices)
	c.DeviceTimeout = 5 * time.Minute
	c.Sched.MaxFlows = 4 * m.flows
	if adjust != nil {
		adjust(&c)
	}
	c.NewPolicy = func(name string, cfg sched.Config, view sched.View) (p Policy, err error) {
		m.event.Policy, err = sched.New(name, cfg, view)
		return &m.event, err
	}
	var err error
	m.s, err = New(c)
	check.NoError(m.b, err)
}

// take is one event; only that is timed.
func (m *many) take(e Event) {
	e.At = m.now
	began := time.Now()
	m.s.Take(e)
	m.out = m.s.Ready()
	m.took = append(m.took, time.Since(began))
	m.most.states = max(m.most.states, m.event.states)
	m.most.orders = max(m.most.orders, len(m.out))
	m.event.states = 0
}

// untimed runs f outside the timed events.
func (m *many) untimed(f func()) {
	took := m.took
	if b, ok := m.b.(*testing.B); ok {
		b.StopTimer()
		defer b.StartTimer()
	}
	f()
	m.took = took
}

func (m *many) submit(i int) {
	m.id++
	name := fmt.Sprint("f", i%m.flows)
	m.take(Event{Kind: Submitted, Invocation: m.id, Function: &Function{
		Flow: sched.FlowID{Namespace: "n", Function: name}, Key: name, HostMB: 256, Memory: gib,
	}})
}

func (m *many) submitAll() {
	for i := range m.flows {
		m.submit(i)
	}
}

func (m *many) host() func(int) {
	m.begin(1, nil)
	for range 60 {
		m.now += time.Second
		m.take(Event{Kind: Sampled, Utilization: 1, Used: 16 * gib})
	}
	m.submitAll()
	m.take(Event{Kind: HostReported})
	return func(i int) {
		m.now += time.Millisecond
		m.submit(i)
	}
}

func (m *many) tokens() func(int) {
	m.begin(1, func(c *Config) {
		c.Tokens = gpu.TokensConfig{Max: 2, Dynamic: true, Threshold: 0.9, Smoothing: 1, MinSamples: 1}
	})
	m.submitAll()
	return func(i int) {
		m.now += time.Second
		m.take(Event{Kind: Sampled, Utilization: float64(1 - i%2), Used: -1})
	}
}

func (m *many) device() func(int) {
	m.begin(2, nil)
	m.submitAll()
	return func(int) {
		m.now += time.Second
		m.take(Event{Kind: DeviceLost, Device: 1})
		m.take(Event{Kind: DeviceBack, Device: 1})
	}
}

func (m *many) all() func(int) {
	m.begin(1, nil)
	m.take(Event{Kind: DeviceLost})
	m.submitAll()
	return func(int) {
		m.now += time.Second
		m.take(Event{Kind: DeviceBack})
		m.take(Event{Kind: DeviceLost})
	}
}

// tick lets time pass to the deadline.
func (m *many) tick() {
	at, ok := m.s.Deadline()
	check.That(check.Must(m.b), ok, "nothing is due")
	m.now = max(m.now, at)
	m.take(Event{Kind: Tick})
}

func (m *many) refuse() func(int) {
	return func(int) {
		m.untimed(func() {
			m.begin(1, nil)
			m.take(Event{Kind: DeviceLost})
			m.submitAll()
		})
		for m.s.Stats().Queued > 0 {
			m.tick()
		}
	}
}

func (m *many) expire() func(int) {
	return func(int) {
		m.untimed(func() {
			m.begin(1, nil)
			m.take(Event{Kind: DeviceLost})
			m.submitAll()
			for id := range m.id {
				m.take(Event{Kind: Withdrawn, Invocation: id + 1})
			}
			m.now += 24 * time.Hour
		})
		for len(m.s.flows) > 0 {
			m.tick()
		}
	}
}
