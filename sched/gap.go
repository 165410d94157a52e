package sched

// setupsHeld is how many setups a flow's place is worth: with T so many times
// the mean setup a container that was started for a backlog serves long enough
// that starts are a small part of what the device does.
const setupsHeld = 5

// learnSetup follows the cost of a setup with T, where the policy is given a gap
// for that.
func (s *Scheduler) learnSetup(setup int64) {
	if setup <= 0 || s.cfg.Gap == 0 || s.overrun == endless {
		return
	}
	if s.setup == 0 {
		s.setup = setup
	}
	s.setup = s.smooth(s.setup, setup, false)
	want := min(max(setupsHeld*s.setup, int64(s.cfg.Overrun)), int64(s.cfg.MaxOverrun()))
	// A small change is not worth a look at every flow.
	if d := want - s.overrun; d > s.overrun/4 || -d > s.overrun/4 {
		s.setOverrun(want)
	}
}

// setOverrun changes T and judges every flow and namespace by it.
func (s *Scheduler) setOverrun(t int64) {
	s.overrun = t
	for _, g := range s.groups {
		if g == nil {
			continue
		}
		if st, moved := s.judge(&s.root, g.slot, g.vt, g.serial, g.standing); moved {
			s.setGroup(g, st)
		}
	}
	for _, f := range s.flows {
		if f == nil {
			continue
		}
		if st, moved := s.judge(&f.group.level, f.slot, f.vt, f.serial, f.standing); moved {
			f.standing = st
			s.reorder(f)
			s.mark(f)
		}
	}
}
