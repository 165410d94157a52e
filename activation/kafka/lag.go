package kafka

import (
	"time"

	wire "github.com/segmentio/kafka-go"
)

// growEvery is how many measurements of the lag are between two that also ask
// whether the topic has more partitions.
const growEvery = 6

// measureLag keeps the end of each partition known while nothing is fetched,
// which is when there is no capacity: the time when the lag grows. It is quiet
// about failures, for those who fetch and commit report them.
func (f *Feed) measureLag() {
	every := time.NewTicker(f.cfg.LagEvery)
	defer every.Stop()
	var readers []*partitionReader
	defer func() { closeAll(readers) }()
	for n := 1; ; n++ {
		select {
		case <-f.ctx.Done():
			return
		case <-every.C:
		}
		grow := n%growEvery == 0
		if grow {
			closeAll(readers) // a new connection reports how many partitions there are
		}
		for _, p := range f.stale(grow) {
			for len(readers) <= int(p.index) {
				readers = append(readers, f.cluster.reader(f.ctx, f.cfg.Topic, int32(len(readers)), 1, 1, fetchWait))
			}
			p.measure(readers[p.index])
		}
	}
}

func closeAll(readers []*partitionReader) {
	for _, r := range readers {
		r.close()
	}
}

// measure asks for the end of a partition, and over a new connection how many
// partitions there are.
func (p *partition) measure(r *partitionReader) {
	fresh, err := r.connect(p.feed.ctx, r.partition)
	if err != nil {
		return
	}
	if fresh {
		p.feed.grow(r.partitions)
	}
	if end, err := r.find(p.feed.ctx, wire.LastOffset); err == nil {
		p.setEnd(end)
	}
}

// stale are the partitions whose end was heard too long ago, or never though
// reading began. The first is always one of them if grow is set.
func (f *Feed) stale(grow bool) (all []*partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.partitions {
		if p.watermark != nil && (grow && p.index == 0 || time.Since(p.endKnown) >= f.cfg.LagEvery) {
			all = append(all, p)
		}
	}
	return all
}
