package kafka

import "time"

// growEvery is how many measurements of the lag are between two looks whether
// the topic has more partitions.
const growEvery = 6

// gauge keeps the end of each partition known while nothing is fetched, which
// is when there is no room: the time when the lag grows. It is quiet about
// failures, for who fetches or commits tells of them.
func (f *Feed) gauge() {
	every := time.NewTicker(f.cfg.LagEvery)
	defer every.Stop()
	var tails []*tail
	defer func() { dropAll(tails) }()
	for n := 1; ; n++ {
		select {
		case <-f.ctx.Done():
			return
		case <-every.C:
		}
		if n%growEvery == 0 {
			dropAll(tails) // a new link tells how many partitions there are
		}
		for _, p := range f.stale(n%growEvery == 0) {
			for len(tails) <= int(p.index) {
				tails = append(tails, newTail(f.cluster, f.cfg.Topic, int32(len(tails)), 1, 1, fetchWait))
			}
			p.measure(tails[p.index])
		}
	}
}

func dropAll(tails []*tail) {
	for _, t := range tails {
		t.drop()
	}
}

func (p *partition) measure(t *tail) {
	fresh, err := t.connect(p.feed.ctx)
	if err != nil {
		return
	}
	if fresh {
		p.feed.grow(t.partitions)
	}
	if end, err := t.edge(logEnd); err == nil {
		p.hear(end)
	} else {
		t.drop()
	}
}

// stale are the partitions whose end was heard too long ago, or never though
// reading began. The first is always one of them if look is set.
func (f *Feed) stale(look bool) (all []*partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.partitions {
		if p.marks != nil && (look && p.index == 0 || time.Since(p.heard) >= f.cfg.LagEvery) {
			all = append(all, p)
		}
	}
	return all
}
