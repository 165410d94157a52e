package sched

// paella takes the shortest expected service, with Paella's limit on
// unfairness: on each dispatch the winner pays 1 - 1/n and the other n-1
// backlogged flows earn 1/n; a flow whose deficit passed the limit goes first.
//
// What all earn is one counter, earned. A backlogged flow holds the offset
// from it, so that its deficit is earned - f.deficit; an empty flow holds the
// deficit itself.
type paella struct {
	noHooks
	limit  int64
	earned int64
	below  heap[*flow] // backlogged flows under the limit, by offset
}

// credit is one dispatch in deficit units: fine enough for 1/n of 100,000
// flows, coarse enough for 10^11 dispatches.
const credit = 1 << 24

func newPaella(limit float64) *paella {
	return &paella{limit: int64(limit * credit)}
}

// key puts those over the limit in class 0, largest deficit first.
func (p *paella) key(s *Scheduler, f *flow) (int64, int64) {
	if p.earned-f.deficit >= p.limit {
		return 0, f.deficit
	}
	return 1, s.expected(f)
}

func (p *paella) queued(_ *Scheduler, f *flow) {
	f.deficit = p.earned - f.deficit
	p.watch(f)
}

func (p *paella) drained(_ *Scheduler, f *flow) {
	p.below.remove(&f.byDeficit)
	f.deficit = p.earned - f.deficit
}

// watch keeps a backlogged flow in below exactly while it is under the limit.
func (p *paella) watch(f *flow) {
	if p.earned-f.deficit < p.limit {
		p.below.put(&f.byDeficit, rank{key: f.deficit, tie: f.serial})
	} else {
		p.below.remove(&f.byDeficit)
	}
}

// granted runs before a flow that gave its last invocation is drained.
func (p *paella) granted(s *Scheduler, f *flow) Rule {
	rule := RuleOrder
	if f.byRank.class == 0 {
		rule = RuleDeficit
	}
	p.earned += credit / int64(s.backlogged)
	f.deficit += credit
	p.watch(f)
	for len(p.below) > 0 && p.earned-p.below.top().key >= p.limit {
		over := p.below.top().of
		p.below.remove(&over.byDeficit)
		if over != f {
			s.rank(over)
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
