package kafka

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// partition is one partition of a feed's topic. A goroutine of its own fetches
// when it is asked to; what it fetched goes to whoever calls Next.
type partition struct {
	feed    *Feed
	index   int32
	want    chan struct{} // fetch once; one signal is enough
	reading *outage.Outage

	// Of its goroutine.
	tail *tail

	// Guarded by the feed's mu.
	account
	records  []record // fetched and not yet handed out
	asked    bool     // a fetch is under way, or its answer is
	position int64    // the offset that is read next
	safe     int64    // the broker's knowledge of the position, -1 before the first commit
	edge     int64    // of the partition, when last heard
	heard    time.Time
	read     bool // anything was read
}

// fetched is an answer on its way to Next.
type fetched struct {
	from    *partition
	records []record
}

func newPartition(f *Feed, index int32) *partition {
	log := f.log
	if index > 0 {
		log = log.With("partition", index)
	}
	return &partition{
		feed: f, index: index, want: make(chan struct{}, 1), safe: -1,
		reading: outage.New(log, "reading of activations"),
		tail:    newTail(f.cluster, f.cfg.Topic, index, 1, f.cfg.FetchBytes, fetchWait),
		account: account{tried: map[int64]try{}},
	}
}

// run fetches once for each time that it is asked, until the feed ends.
func (p *partition) run() {
	defer p.tail.drop()
	for {
		select {
		case <-p.feed.ctx.Done():
			return
		case <-p.want:
		}
		records := p.insist(p.feed.ctx)
		select {
		case <-p.feed.ctx.Done():
			return
		case p.feed.came <- fetched{p, records}:
		}
	}
}

// insist fetches until there is something, or the feed ends.
func (p *partition) insist(ctx context.Context) []record {
	for {
		records, err := p.fetch(ctx)
		if err != nil {
			p.tail.drop()
			p.reading.Failed(ctx, err)
		} else if p.reading.Over(); len(records) > 0 {
			return records
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// deliver makes a delivery of a record, unless an earlier process had completed
// it. What cannot be decoded is finished with, or it would hold back the
// position for ever.
func (p *partition) deliver(r record) (Delivery, bool) {
	f := p.feed
	if f.cfg.Delay != nil {
		f.cfg.Delay(max(0, time.Since(r.time)))
	}
	f.mu.Lock()
	p.position = r.offset + 1
	p.read = true
	if !p.meet(r) {
		f.stats.Finished++
		f.mu.Unlock()
		return Delivery{}, false
	}
	f.mu.Unlock()
	m, err := activation.DecodeMessage(r.value)
	f.mu.Lock()
	d := p.hand(r)
	d.Message, d.Partition, d.holder = m, p.index, p
	if err == nil {
		f.stats.Delivered++
	} else {
		f.stats.Undecodable++
	}
	f.mu.Unlock()
	if err != nil {
		f.log.Error("activation message cannot be decoded, skipped",
			"partition", p.index, "offset", r.offset, "bytes", len(r.value), "error", err)
		d.Done()
		return Delivery{}, false
	}
	return d, true
}

// begin notes that an activation begins to run. One that had begun before may
// be what ended the process: that it begins again is told at once.
func (p *partition) begin(epoch int, offset int64) {
	f := p.feed
	f.mu.Lock()
	news, again := p.start(epoch, offset)
	f.mu.Unlock()
	if news {
		f.commits.changed(f.cfg.CommitAfter, again)
	}
}

// finish notes that an activation is completed.
func (p *partition) finish(epoch int, offset int64) {
	f := p.feed
	f.mu.Lock()
	news := p.end(epoch, offset)
	f.mu.Unlock()
	if news {
		signal(f.settled)
		f.commits.completed(f.cfg.CommitAfter)
	}
}

// lag is how many records wait in Kafka.
func (p *partition) lag() int64 {
	if !p.read {
		return 0
	}
	return max(0, p.edge-p.position)
}

func (p *partition) stats() PartitionStats {
	s := PartitionStats{
		Partition: p.index, Position: p.position, Committed: p.safe, HighWatermark: p.edge,
		Interrupted: p.reading.Reason(),
	}
	if p.marks != nil {
		s.Open = p.marks.Open()
	}
	return s
}
