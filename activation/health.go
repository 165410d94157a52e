package activation

import "fmt"

// HealthStatus is the health that an invoker reports. An unknown text would make every
// controller's list of invokers fail.
type HealthStatus string

// The statuses that controllers know. Only invokers that are up get creations.
const (
	Up        HealthStatus = "up"
	Unhealthy HealthStatus = "unhealthy"
	Down      HealthStatus = "down"
)

// Health is an invoker's record in etcd. Paused and prewarmed containers count as
// free memory.
type Health struct {
	Status              HealthStatus
	FreeMB              int64
	BusyMB              int64 // of containers that fetch
	InProgressMB        int64 // of containers that are made or resumed
	Tags                []string
	DedicatedNamespaces []string
}

// Encode writes the record.
func (h Health) Encode() []byte {
	o := newObject(make([]byte, 0, 160))
	o.int("busyMemory", h.BusyMB)
	o.strs("dedicatedNamespaces", h.DedicatedNamespaces)
	o.int("freeMemory", h.FreeMB)
	o.int("inProgressMemory", h.InProgressMB)
	o.str("status", string(h.Status))
	o.strs("tags", h.Tags)
	return o.end()
}

// DecodeHealth reads a record as strictly as a controller does.
func DecodeHealth(data []byte) (Health, error) {
	var h Health
	p := newParser(data)
	p.fields(
		required("status", func() { h.Status = HealthStatus(p.str()) }),
		required("freeMemory", func() { h.FreeMB = p.integer() }),
		required("busyMemory", func() { h.BusyMB = p.integer() }),
		required("inProgressMemory", func() { h.InProgressMB = p.integer() }),
		required("tags", func() { h.Tags = p.strings() }),
		required("dedicatedNamespaces", func() { h.DedicatedNamespaces = p.strings() }),
	)
	if p.err == nil && h.Status != Up && h.Status != Unhealthy && h.Status != Down {
		p.failf("want the status %s, %s or %s", Up, Unhealthy, Down)
	}
	if err := p.end(); err != nil {
		return Health{}, fmt.Errorf("decode an invoker's record: %w", err)
	}
	return h, nil
}

// SchedulerEndpoints is where a scheduler answers: the value of a leader's key.
type SchedulerEndpoints struct {
	Endpoint  Endpoint // gRPC
	ActorPort int      // for controllers and schedulers
}

// SchedulerState is a scheduler's record in etcd.
type SchedulerState struct {
	ID        string
	Endpoints SchedulerEndpoints
	Queues    int64
}

// Encode writes the endpoints.
func (e SchedulerEndpoints) Encode() []byte { return e.append(nil) }

func (e SchedulerEndpoints) append(dst []byte) []byte {
	o := newObject(dst)
	o.str("host", e.Endpoint.Host)
	o.int("pekkoPort", int64(e.ActorPort))
	o.int("rpcPort", int64(e.Endpoint.Port))
	return o.end()
}

// endpoints reads the endpoints. The port of actors is not an invoker's matter,
// and had another name in older releases.
func (p *parser) endpoints() SchedulerEndpoints {
	var e SchedulerEndpoints
	p.fields(
		required("host", func() { e.Endpoint.Host = p.str() }),
		required("rpcPort", func() { e.Endpoint.Port = p.port() }),
		optional("pekkoPort", func() { e.ActorPort = p.wholeInt() }),
	)
	p.require(e.Endpoint.Host != "", "host")
	return e
}

func (p *parser) port() int {
	n := p.wholeInt()
	if p.err == nil && (n <= 0 || n > 65535) {
		p.failf("want a port")
	}
	return n
}

// DecodeSchedulerEndpoints reads a leader's value.
func DecodeSchedulerEndpoints(data []byte) (SchedulerEndpoints, error) {
	p := newParser(data)
	e := p.endpoints()
	if err := p.end(); err != nil {
		return SchedulerEndpoints{}, fmt.Errorf("decode a leader's record: %w", err)
	}
	return e, nil
}

// Encode writes the record.
func (s SchedulerState) Encode() []byte {
	o := newObject(nil)
	o.key("endpoints")
	o.out = s.Endpoints.append(o.out)
	o.int("queueSize", s.Queues)
	o.key("sid")
	id := newObject(o.out)
	id.str("asString", s.ID)
	o.out = id.end()
	return o.end()
}

// DecodeSchedulerState reads a scheduler's record.
func DecodeSchedulerState(data []byte) (SchedulerState, error) {
	var s SchedulerState
	p := newParser(data)
	p.fields(
		required("sid", func() { s.ID = p.schedulerID() }),
		required("endpoints", func() { s.Endpoints = p.endpoints() }),
		optional("queueSize", func() { s.Queues = p.integer() }),
	)
	if err := p.end(); err != nil {
		return SchedulerState{}, fmt.Errorf("decode a scheduler's record: %w", err)
	}
	return s, nil
}
