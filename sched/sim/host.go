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

// Outcome is how an activation that ended was run: what it found, and when the run proper
// began and ended.
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
