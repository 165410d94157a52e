package kafka

import (
	"context"
	"hash/crc32"
	"maps"
	"slices"
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
	records  []record // fetched and not yet handed out
	asked    bool     // a fetch is under way, or its answer is
	marks    *Watermark
	tried    map[int64]try // of what is open and has begun to run, here or before
	last     mark
	cuts     []int64 // where the log became another one, a cut for each epoch that is over
	changes  uint64  // rises with whatever a commit should say
	told     uint64  // changes that the broker knows of
	position int64   // the offset that is read next
	safe     int64   // the broker's knowledge of the position, -1 before the first commit
	end      int64   // of the partition, when last heard
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
		tried:   map[int64]try{},
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
		switch {
		case err == nil:
			p.reading.Over()
			if len(records) > 0 {
				return records
			}
		default:
			p.tail.drop()
			p.reading.Failed(ctx, err)
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
	p.last.see(r)
	if p.marks.Finished(r.offset) {
		f.stats.Finished++
		f.mu.Unlock()
		return Delivery{}, false
	}
	f.mu.Unlock()
	m, err := activation.DecodeMessage(r.value)
	f.mu.Lock()
	p.marks.Begin(r.offset)
	before := p.tried[r.offset]
	d := Delivery{
		Message: m, Partition: p.index, Offset: r.offset, Timestamp: r.time,
		Begun: before.begun, Attempts: before.attempts, partition: p, epoch: len(p.cuts),
	}
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

// see notes a record that was read. A start reads again what lies below the
// last one that is known of, which goes on standing for all.
func (m *mark) see(r record) {
	m.newest = max(m.newest, r.time.UnixMilli())
	if !m.ok || r.offset > m.offset {
		m.offset, m.sum, m.ok = r.offset, sumOf(r.value), true
	}
}

func sumOf(value []byte) uint32 { return crc32.Checksum(value, castagnoli) }

// begin notes that an activation begins to run. One that had begun before may
// be what ended the process: that it begins again is told at once.
func (p *partition) begin(epoch int, offset int64) {
	f := p.feed
	f.mu.Lock()
	t, again := p.tried[offset]
	fresh := p.valid(epoch, offset) && !p.marks.Finished(offset) && !t.here
	if fresh {
		p.tried[offset] = try{offset: offset, attempts: t.attempts, begun: t.begun, here: true}
		p.changes++
	}
	f.mu.Unlock()
	if fresh {
		f.commits.changed(f.cfg.CommitAfter, again)
	}
}

// finish moves the position when the offset was the oldest open one.
func (p *partition) finish(epoch int, offset int64) {
	f := p.feed
	f.mu.Lock()
	finished := p.valid(epoch, offset) && p.marks.Finish(offset)
	if finished {
		delete(p.tried, offset)
		p.changes++
	}
	f.mu.Unlock()
	if finished {
		signal(f.settled)
		f.commits.completed(f.cfg.CommitAfter)
	}
}

// valid tells whether a delivery's offset is still that of its record: not if
// the log was cut below it since.
func (p *partition) valid(epoch int, offset int64) bool {
	for _, cut := range p.cuts[epoch:] {
		if offset >= cut {
			return false
		}
	}
	return true
}

// roomy tells whether another record may be handed out: what is open then can
// be named beside the position, however it ends, or what is to be named now
// takes not even half of the room.
func (p *partition) roomy(chars int) bool {
	if p.marks == nil || p.marks.Open() == 0 || chars == 0 {
		return true
	}
	if noteFits(int64(p.marks.Open())+1, p.marks.Window()+1, noteBits(chars)) {
		return true
	}
	_, whole := p.note(true).encode(p.marks.Position(), chars/2)
	return whole && p.marks.Window() < maxWindow
}

// note is what a commit should say now beside the position. A feed that closes
// has not been ended by what runs.
func (p *partition) note(closing bool) *note {
	n := &note{last: p.last, done: slices.Collect(p.marks.Done)}
	for _, offset := range slices.Sorted(maps.Keys(p.tried)) {
		t := p.tried[offset]
		if t.here {
			t.begun = true
			if !closing {
				t.attempts++
			}
		}
		n.tried = append(n.tried, t)
	}
	return n
}

// lag is how many records wait in Kafka.
func (p *partition) lag() int64 {
	if !p.read {
		return 0
	}
	return max(0, p.end-p.position)
}

func (p *partition) stats() PartitionStats {
	s := PartitionStats{
		Partition: p.index, Position: p.position, Committed: p.safe, HighWatermark: p.end,
		Interrupted: p.reading.Reason(),
	}
	if p.marks != nil {
		s.Open = p.marks.Open()
	}
	return s
}
