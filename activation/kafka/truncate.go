package kafka

import (
	"context"

	wire "github.com/segmentio/kafka-go"
)

// verify checks that the log is still the log that was read, by its last record. A broker that
// lost power, or a new leader that was behind, may have lost records and given their offsets
// to other records.
func (p *partition) verify(ctx context.Context) error {
	p.feed.mu.Lock()
	last := p.last
	for _, r := range p.records {
		last.see(r)
	}
	p.feed.mu.Unlock()
	if !last.ok {
		return nil
	}
	same, err := p.reader.stillHas(ctx, last)
	if err != nil || same {
		return err
	}
	return p.diverge(ctx, last.newest)
}

// diverge continues at the first record that was not read before: the first one that is
// younger than every record read. If only the committed offset is known and it lies above the
// log, the whole log counts as read.
func (p *partition) diverge(ctx context.Context, newest int64) error {
	cut, err := int64(-1), error(nil)
	if newest > 0 {
		cut, err = p.reader.find(ctx, newest+1)
	}
	if err == nil && cut < 0 { // none is
		cut, err = p.reader.find(ctx, wire.LastOffset)
	}
	if err != nil {
		return err
	}
	p.cutAt(cut)
	return nil
}

// cutAt forgets all offsets from the given one on, including fetched records, and reads them
// as new.
func (p *partition) cutAt(offset int64) {
	f := p.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	read := max(p.position, p.offset(), p.last.offset+1)
	offset = min(offset, read)
	f.log.Error("log was truncated below the last read activation, or created anew: going on at the first unread activation",
		"partition", p.index, "read", read, "offset", offset)
	p.cut(offset)
	p.records = nil
	p.position = min(p.position, offset)
	p.reader.offset = p.position
	signal(f.changed) // forgotten activations will not complete
	signal(f.commits.dirty)
}

// reposition moves the offset into the log if the offset lies outside: the next record has
// expired, or the log was truncated below the offset.
func (p *partition) reposition(ctx context.Context) error {
	start, err := p.reader.find(ctx, wire.FirstOffset)
	if err != nil {
		return err
	}
	f := p.feed
	f.mu.Lock()
	newest := p.last.newest
	f.mu.Unlock()
	switch {
	case start > p.reader.offset:
		p.skipExpired(start)
	case newest > 0 || p.unfetched:
		return p.diverge(ctx, newest)
	default: // nothing shows which records were read
		p.cutAt(start)
	}
	return nil
}

// skipExpired continues at the beginning of the log, which lies above the next offset.
func (p *partition) skipExpired(start int64) {
	f := p.feed
	lost := start - p.reader.offset
	f.log.Error("activations expired in Kafka before they were read: lost but for those in the journal",
		"partition", p.index, "position", p.reader.offset, "offset", start, "lost", lost)
	p.reader.offset = start
	f.mu.Lock()
	defer f.mu.Unlock()
	p.position = start
	f.stats.Lost += lost
	if len(p.open) == 0 && p.offset() < start { // otherwise the committed offset waits for the open activations
		p.skipTo(start)
		p.changes++
		signal(f.commits.dirty)
	}
}
