package kafka

import (
	"context"

	wire "github.com/segmentio/kafka-go"
)

// verify makes sure that the log is still the one that was read: that its last
// record of those is there, be it handed out or not. A broker that lost power, or
// a leader that knew less, may have forgotten some, and given their offsets to
// others since.
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
	same, err := p.reader.has(ctx, last)
	if err != nil || same {
		return err
	}
	return p.diverge(ctx, last.newest)
}

// diverge goes on at the first record that is not one of those that were read:
// the first that is younger than all of them. Where only the committed offset is
// known, which is above the log, all that is there was read.
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

// cutAt forgets all offsets from one on, what was fetched of them included, and
// reads them as new.
func (p *partition) cutAt(offset int64) {
	f := p.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	read := max(p.position, p.offset(), p.last.offset+1)
	offset = min(offset, read)
	f.log.Error("log was truncated below what was read, or made anew: going on at the first unread activation",
		"partition", p.index, "read", read, "offset", offset)
	p.cut(offset)
	p.records = nil
	p.position = min(p.position, offset)
	p.reader.offset = p.position
	signal(f.changed) // of what is forgotten nothing will be completed
	f.commits.changed(true)
}

// reposition goes where the log is when the offset to read is outside of it:
// what was to be read next has expired, or is not there yet, since the log was
// truncated.
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
	case newest > 0 || p.untried:
		return p.diverge(ctx, newest)
	default: // there is no sign of what was read of it
		p.cutAt(start)
	}
	return nil
}

// skipExpired goes on at the beginning of the log, above what was to be read.
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
	if len(p.open) == 0 && p.offset() < start { // else the offset follows what is open
		p.skipTo(start)
		p.changes++
		f.commits.changed(true)
	}
}
