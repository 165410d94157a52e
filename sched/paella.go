package sched

// paella takes the shortest expected service, with Paella's limit on
// unfairness: on each dispatch the winner pays 1 - 1/n and the other n-1
// backlogged flows earn 1/n; a flow whose deficit passed the limit goes first.
//
// One counter, earned, has the sum that every flow has earned. A flow that competes holds its
// offset from that counter, so that its deficit is earned - f.deficit; any other flow holds
// the deficit itself.
type paella struct {
	noHooks
	earned int64
}

// credit is one dispatch in deficit units: fine enough for 1/n of 100,000
// flows, coarse enough for 10^11 dispatches.
const credit = 1 << 24

// deficitLimit is the deficit past which a flow goes before shorter ones.
const deficitLimit = 4 * credit

// key puts those over the limit first, largest deficit first.
func (p *paella) key(s *Scheduler, f *flow) key {
	if p.over(f) {
		return key{0, f.deficit}
	}
	return key{1, s.expected(f)}
}

func (p *paella) over(f *flow) bool { return p.earned-f.deficit >= deficitLimit }

func (p *paella) queued(_ *Scheduler, f *flow)  { f.deficit = p.earned - f.deficit }
func (p *paella) drained(_ *Scheduler, f *flow) { f.deficit = p.earned - f.deficit }

// granted runs before a flow that gave its last invocation is drained.
func (p *paella) granted(s *Scheduler, f *flow) Rule {
	rule := RuleNone
	if p.over(f) {
		rule = RuleDeficit
	}
	p.earned += credit / int64(len(s.backlog))
	f.deficit += credit
	return rule
}

// undone pays the winner back; the others keep their earnings.
func (p *paella) undone(_ *Scheduler, f *flow) {
	if f.competes {
		f.deficit -= credit
	} else {
		f.deficit += credit
	}
}
