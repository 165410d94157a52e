package scheduler

import "time"

// expected returns the service that an invocation of a flow is expected to need: the mean
// of the flow's, or that of all flows while the flow has none.
func (s *Scheduler) expected(f *flow) time.Duration {
	if f.service > 0 {
		return f.service
	}
	return s.service
}

// learnService adds a measured service time to the moving averages of the flow and of all
// flows.
func (s *Scheduler) learnService(f *flow, service time.Duration) {
	const weight = 8 // of the old mean against a new value
	f.service += (service - f.service) / min(weight, time.Duration(f.services+1))
	f.services = min(f.services+1, weight)
	s.service += (service - s.service) / min(weight, time.Duration(s.services+1))
	s.services = min(s.services+1, weight)
}

// Backlog returns for how long the invocations that wait would keep all usable devices
// busy. It returns false if no device is usable.
func (s *Scheduler) Backlog() (time.Duration, bool) {
	tokens := 0
	for _, dev := range s.devices {
		if dev.lost == "" {
			tokens += dev.d
		}
	}
	if tokens == 0 {
		return 0, false
	}
	return s.waitingWork / time.Duration(tokens), true
}
