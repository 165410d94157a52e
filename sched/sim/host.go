package sim

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Server is a simulated server that gets its activations from outside, one by one, as
// a host of several does. Activations and functions go by their numbers in the
// workload, whose times of arrival it does not use.
type Server struct{ e *engine }

// NewServer makes a server.
func NewServer(w *Workload, p Params) (*Server, error) {
	e, err := newEngine(w, p)
	if err != nil {
		return nil, err
	}
	e.hosted, e.arrived = true, len(w.Arrivals)
	return &Server{e}, nil
}

// OpenServer makes a server without functions and activations, until horizon:
// AddFunction and AddActivation add them. Many such servers take little memory.
func OpenServer(horizon time.Duration, p Params) (*Server, error) {
	e, err := buildEngine(&Workload{Name: "open", Horizon: horizon}, p)
	if err != nil {
		return nil, err
	}
	e.hosted = true
	return &Server{e}, nil
}

// AddFunction adds a function that the server does not have, and returns its number.
func (s *Server) AddFunction(f Function) int {
	s.e.w.Functions = append(s.e.w.Functions, f)
	s.e.addFunction(f)
	return len(s.e.fns) - 1
}

// AddActivation adds an activation of a function, to be submitted, and returns its number.
func (s *Server) AddActivation(a Arrival) int {
	s.e.w.Arrivals = append(s.e.w.Arrivals, a)
	s.e.executions = append(s.e.executions, execution{})
	s.e.arrived++
	return s.e.arrived - 1
}

// Backlog returns for how long the activations that wait keep the devices busy.
func (s *Server) Backlog() time.Duration {
	waits, _ := s.e.scheduler.Backlog()
	return waits
}

// touch notes a function whose containers or memory may have changed.
func (e *engine) touch(fn int32) {
	if e.hosted {
		e.touched = append(e.touched, int(fn))
	}
}

// Next is when something is due; false for never.
func (s *Server) Next() (time.Duration, bool) { return s.e.next() }

// Submit gives it activations now, and has it do all that is due. It lists activations
// that have ended, and functions whose containers or memory may have changed.
func (s *Server) Submit(now time.Duration, activations ...int) (ended, touched []int, err error) {
	s.e.now = max(s.e.now, now)
	s.e.take()
	for _, j := range activations {
		s.e.arrive(int32(j))
	}
	s.e.decide()
	ended, touched = s.e.ended, s.e.touched
	s.e.ended, s.e.touched = nil, nil
	return ended, touched, s.e.fault
}

// Idle reports whether it could start a run at once.
func (s *Server) Idle() bool {
	return s.e.queued == 0 && s.e.running < s.e.p.Tokens.Max*s.e.p.GPUs
}

// Warm reports whether a function has a container that can serve, and whether that
// has its memory on the device.
func (s *Server) Warm(function int) (warm, resident bool) {
	f := s.e.fns[function].submitted
	return s.e.scheduler.Warm(f.Flow, f.Key)
}

// Outcome describes a finished activation: the kind of its start, and when its run began and
// ended.
func (s *Server) Outcome(activation int) (found sched.StartKind, ran, ended time.Duration) {
	x := &s.e.executions[activation]
	return x.kind, x.ran, x.ended
}

// Service is the device time that a function has had.
func (s *Server) Service(function int) time.Duration {
	for _, d := range s.e.devices {
		s.e.advance(d)
	}
	return s.e.fns[function].service
}
