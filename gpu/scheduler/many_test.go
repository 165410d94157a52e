package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// BenchmarkManyFlows is what one event costs, orders included, while 100,000 functions
// have work queued or had. The dearest, max-ns, is mostly the machine's.
//
//	host:    an invocation comes, host memory is short and others have the device
//	tokens:  D falls and rises between 1 and 2
//	device:  one of two devices is lost, and back
//	all:     every device is lost, and one is back
//	refuse:  a Tick refuses what waited too long for a device that is lost
//	expire:  a Tick ends the TTL of functions, and forgets them
//
// Goal: below 1 ms.
func BenchmarkManyFlows(b *testing.B) {
	for name, f := range map[string]func(*many) func(i int){
		"host": (*many).host, "tokens": (*many).tokens, "device": (*many).device, "all": (*many).all,
		"refuse": (*many).refuse, "expire": (*many).expire,
	} {
		b.Run(name, func(b *testing.B) {
			m := &many{b: b}
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

// many is a scheduler with very many flows.
type many struct {
	b    *testing.B
	s    *Scheduler
	now  time.Duration
	id   uint64
	took []time.Duration
	out  []Order
}

const manyFlows = 100_000

// begin makes the scheduler.
func (m *many) begin(devices int, adjust func(*Config)) {
	c := config("sticky-plus", devices)
	c.DeviceTimeout = 5 * time.Minute
	c.Sched.MaxFlows = 4 * manyFlows
	if adjust != nil {
		adjust(&c)
	}
	var err error
	if m.s, err = New(c); err != nil {
		m.b.Fatal(err)
	}
}

// take is one event; only that is timed.
func (m *many) take(e Event) {
	e.At = m.now
	began := time.Now()
	m.s.Take(e)
	m.out = m.s.Ready()
	m.took = append(m.took, time.Since(began))
}

func (m *many) submit(i int) {
	m.id++
	name := fmt.Sprint("f", i%manyFlows)
	m.take(Event{Kind: Submitted, Invocation: m.id, Function: &Function{
		Flow: sched.FlowID{Namespace: "n", Function: name}, Key: name, HostMB: 256, Memory: gib,
	}})
}

func (m *many) submitAll() {
	for i := range manyFlows {
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
	if !ok {
		m.b.Fatal("nothing is due")
	}
	m.now = max(m.now, at)
	m.take(Event{Kind: Tick})
}

func (m *many) refuse() func(int) {
	return func(int) {
		m.b.StopTimer()
		took := m.took
		m.begin(1, nil)
		m.take(Event{Kind: DeviceLost})
		m.submitAll()
		m.took = took
		m.b.StartTimer()
		for m.s.Stats().Queued > 0 {
			m.tick()
		}
	}
}

func (m *many) expire() func(int) {
	return func(int) {
		m.b.StopTimer()
		took := m.took
		m.begin(1, nil)
		m.take(Event{Kind: DeviceLost})
		m.submitAll()
		for id := range m.id {
			m.take(Event{Kind: Withdrawn, Invocation: id + 1})
		}
		m.now += 24 * time.Hour
		m.took = took
		m.b.StartTimer()
		for len(m.s.flows) > 0 {
			m.tick()
		}
	}
}
