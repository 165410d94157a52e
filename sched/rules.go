package sched

// rules is what makes a policy: where a flow stands in the order of those
// that may run. Everything else is common to all policies.
type rules interface {
	// window says whether the overrun T throttles at all.
	window() bool
	// facts says whether key uses flow.setup, which View must then tell.
	facts() bool
	// classes is how many classes key may answer, 1 at least.
	classes() int
	// key places an eligible flow. Less is sooner; equal keys go by the age
	// of the head.
	key(s *Scheduler, f *flow) (class int8, k1 int64)
	// nested says that groups go by their virtual time, and key orders only
	// the flows of one group. It needs a single class.
	nested() bool
	// first picks among the first flows of each class; false if none.
	first(s *Scheduler, now int64) (*flow, bool)
	// queued and drained follow a flow into and out of backlog.
	queued(s *Scheduler, f *flow)
	drained(s *Scheduler, f *flow)
	// granted follows a grant, before the order is brought up to date, and
	// names the rule that made it.
	granted(s *Scheduler, f *flow) Rule
	// undone follows an item that comes back, or is given up, ungranted.
	undone(s *Scheduler, f *flow)
	// dropped follows a flow that lost a queued item.
	dropped(s *Scheduler, f *flow)
}

// plain is a policy with one class and nothing to remember.
type plain struct{}

func (plain) window() bool                        { return false }
func (plain) facts() bool                         { return false }
func (plain) classes() int                        { return 1 }
func (plain) nested() bool                        { return false }
func (plain) queued(*Scheduler, *flow)            {}
func (plain) drained(*Scheduler, *flow)           {}
func (plain) undone(*Scheduler, *flow)            {}
func (plain) granted(*Scheduler, *flow) Rule      { return RuleOrder }
func (plain) dropped(*Scheduler, *flow)           {}
func (plain) key(*Scheduler, *flow) (int8, int64) { return 0, 0 }

// first takes the lowest class that has a flow.
func (plain) first(s *Scheduler, _ int64) (*flow, bool) {
	class, ok := s.order.next(0)
	if !ok {
		return nil, false
	}
	slot := s.order.first(class)
	return s.flows.at(slot), true
}
