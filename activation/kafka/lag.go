package kafka

import "time"

// hear notes the end of the partition.
func (f *Feed) hear(end int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.HighWatermark = end
	f.heard = time.Now()
}

// gauge keeps the end of the partition known while nothing is fetched, which
// is when there is no room: the time when the lag grows. It is quiet about
// failures, for who fetches or commits tells of them.
func (f *Feed) gauge() {
	every := time.NewTicker(f.cfg.LagEvery)
	defer every.Stop()
	t := newTail(f.cluster, f.cfg.Topic, 1, 1, fetchWait)
	defer t.drop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-every.C:
		}
		if !f.stale() {
			continue
		}
		if err := t.connect(f.ctx, f.ctx); err != nil {
			continue
		}
		if end, err := t.edge(logEnd); err == nil {
			f.hear(end)
		} else {
			t.drop()
		}
	}
}

// stale tells whether the end was heard too long ago, or never though reading
// began.
func (f *Feed) stale() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.marks != nil && time.Since(f.heard) >= f.cfg.LagEvery
}
