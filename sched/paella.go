package sched

// paella takes the shortest expected service, with Paella's limit on
// unfairness: on each dispatch the winner pays 1 - 1/n and the other n-1
// backlogged flows earn 1/n; a flow whose deficit passed the limit goes first.
//
// What all earn is one counter, earned. A backlogged flow holds the offset
// from it, so that its deficit is earned - f.deficit; an empty flow holds the
// deficit itself.
type paella struct {
	plain
	limit  int64
	earned int64
	below  heap // backlogged flows under the limit, by offset
	at     []int32
}

// credit is one dispatch in deficit units: fine enough for 1/n of 100,000
// flows, coarse enough for 10^11 dispatches.
const credit = 1 << 24

func newPaella(limit float64) *paella {
	p := &paella{limit: int64(limit * credit)}
	p.below.at = &p.at
	return p
}

func (*paella) classes() int { return 2 }

// key puts those over the limit in class 0, largest deficit first.
func (p *paella) key(s *Scheduler, f *flow) (int8, int64) {
	if p.earned-f.deficit >= p.limit {
		return 0, f.deficit
	}
	return 1, s.expected(f)
}

func (p *paella) queued(_ *Scheduler, f *flow) {
	for int(f.slot) >= len(p.at) {
		p.at = append(p.at, 0)
	}
	f.deficit = p.earned - f.deficit
	p.watch(f)
}

func (p *paella) drained(_ *Scheduler, f *flow) {
	if p.at[f.slot] != 0 {
		p.below.remove(f.slot)
	}
	f.deficit = p.earned - f.deficit
}

// watch keeps a backlogged flow in below exactly while it is under the limit.
func (p *paella) watch(f *flow) {
	in, want := p.at[f.slot] != 0, p.earned-f.deficit < p.limit
	switch {
	case in && want:
		p.below.fix(f.slot, f.deficit, f.serial)
	case in:
		p.below.remove(f.slot)
	case want:
		p.below.push(f.slot, f.deficit, f.serial)
	}
}

// granted runs before a flow that gave its last item is drained.
func (p *paella) granted(s *Scheduler, f *flow) Rule {
	rule := RuleOrder
	if f.class == 0 {
		rule = RuleDeficit
	}
	p.earned += credit / int64(s.backlogged)
	f.deficit += credit
	p.watch(f)
	for p.below.len() > 0 && p.earned-p.below.top().k1 >= p.limit {
		over := s.flows.at(p.below.top().slot())
		p.below.remove(over.slot)
		if over != f {
			s.reorder(over)
		}
	}
	return rule
}

// undone pays the winner back; what the others earned by it they keep.
func (p *paella) undone(_ *Scheduler, f *flow) {
	if f.standing == out {
		f.deficit += credit
		return
	}
	f.deficit -= credit
	p.watch(f)
}
