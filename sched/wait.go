package sched

// shouldWait reports whether a flow that could start should wait instead: its containers
// serve its whole queue sooner than a new one starts. It waits while a token is empty or
// others inside the window run meanwhile, and starts before a flow beyond the window that
// leads it by more than T (passedOver). It does not leave a token empty for long (waitedEnough).
//
// With m containers, the first of them free in r, the last of q queued invocations
// begins at about r + (q-1) x tau/m. A container that starts later helps no invocation. A
// container that starts sooner lowers the sum of the waits, so a flow with a long queue gets
// it.
//
// Expectations may be wrong, so a head waits at most as long as the start it
// avoids would take: then both choices cost about the same, and it starts.
func (s *Scheduler) shouldWait(f *flow, p Placement) bool {
	if p.Setup <= 0 || !s.worthWaiting(f, p) {
		return false
	}
	if !f.waiting {
		f.waiting, f.waitingSince = true, s.now
	}
	if f.waitEnd = f.waitingSince + int64(p.Setup); s.now >= f.waitEnd {
		return false
	}
	s.waitUntil = min(s.waitUntil, f.waitEnd)
	if at := f.startsIdle(p); !p.Displaces && s.now < at {
		s.waitUntil = min(s.waitUntil, at)
	}
	return true
}

// startsIdle returns the time from which a flow that waits starts rather than leave a token
// empty: its queue has then had work for as long as the start takes.
func (f *flow) startsIdle(p Placement) int64 { return f.queuedSince + int64(p.Setup) }

func (s *Scheduler) worthWaiting(f *flow, p Placement) bool {
	soonest, many := int64(never), 0
	if s.cfg.Wait && p.Start >= Cold {
		soonest, many = s.firstEnd(f.flights), len(f.flights)
	}
	if s.cfg.Locality {
		at, n := s.nearIdle(f)
		soonest, many = min(soonest, at), many+n
	}
	if many == 0 {
		return false
	}
	behind := float64(len(f.queue)-1) * float64(s.usual(f)) / float64(many)
	return float64(soonest)+behind < float64(p.Setup)
}

// firstEnd is the expected time until the first of some runs ends, 0 when it is
// late.
func (s *Scheduler) firstEnd(flights []*invocation) int64 {
	soonest := int64(never)
	for _, it := range flights {
		soonest = min(soonest, max(0, it.run.granted+it.run.setup+it.run.estimate-s.now))
	}
	return soonest
}

// nearIdle is when the flow is expected to start in an idle container of its
// own on a full device, token and start there included, and how many devices
// have one.
func (s *Scheduler) nearIdle(f *flow) (soonest int64, many int) {
	soonest = never
	for _, d := range s.devices {
		if d.leaving || d.free() > 0 || len(d.flights) == 0 {
			continue
		}
		if p := f.work.Placement(d.index); p.Start <= HostWarm && p.Fits {
			soonest = min(soonest, s.firstEnd(d.flights)+clamped(p.Setup))
			many++
		}
	}
	return soonest, many
}
