package kafka

import (
	"context"
	"errors"
	"log/slog"
	"time"

	wire "github.com/segmentio/kafka-go"
)

// fetch asks the broker once for more records.
func (p *partition) fetch(ctx context.Context) ([]record, error) {
	f := p.feed
	fresh, err := p.tail.connect(ctx)
	if err != nil {
		return nil, err
	}
	if p.marks == nil { // only this goroutine sets it
		if err := p.locate(ctx); err != nil {
			return nil, err
		}
	}
	if fresh {
		f.grow(p.tail.partitions)
		if err := p.verify(); err != nil {
			return nil, err
		}
	}
	records, err := p.tail.fetch()
	if errors.Is(err, wire.OffsetOutOfRange) {
		return nil, p.reposition()
	}
	if err == nil {
		p.hear(p.tail.end)
	}
	return records, err
}

// hear notes the end of the partition.
func (p *partition) hear(end int64) {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	p.edge = end
	p.heard = time.Now()
}

// locate finds where to begin: at the group's committed position, or at the
// beginning of the log when it has none (auto.offset.reset=earliest of the
// original).
func (p *partition) locate(ctx context.Context) error {
	f := p.feed
	l, err := f.cluster.coordinator(ctx, f.cfg.Group)
	if err != nil {
		return err
	}
	defer l.close()
	offset, text, ok, err := committedOffset(l, f.cfg.Group, f.cfg.Topic, p.index)
	if err != nil {
		return err
	}
	if !ok {
		offset, err = p.tail.edge(logStart)
		if err != nil {
			return err
		}
		f.log.Info("group has no position, reading from the beginning",
			"group", f.cfg.Group, "partition", p.index, "offset", offset)
	}
	n, err := decodeNote(text, offset)
	if err != nil {
		f.log.Warn("what is committed beside the position cannot be used: activations behind the position run again though some may have ended",
			"group", f.cfg.Group, "partition", p.index, "offset", offset, "bytes", len(text), "error", err)
	}
	p.begins(offset, ok, n)
	return nil
}

// begins starts at an offset with what is known beside it.
func (p *partition) begins(offset int64, committed bool, n note) {
	f := p.feed
	p.tail.offset = offset
	f.mu.Lock()
	defer f.mu.Unlock()
	p.open(offset, n)
	p.position = offset
	if committed {
		p.safe = offset
	}
	if len(n.done)+len(n.tried) > 0 {
		f.log.Info("resuming between activations that have ended",
			"partition", p.index, "offset", offset, "upTo", n.last.offset, "begun", len(p.tried))
	}
}

// verify makes sure that the log is still the one that was read: that its last
// record of those is there. A broker that lost power, or a leader that knew
// less, may have forgotten some, and given their offsets to others since.
func (p *partition) verify() error {
	p.feed.mu.Lock()
	last := p.last
	p.feed.mu.Unlock()
	if !last.ok {
		return nil
	}
	same, err := p.tail.has(last)
	if err != nil || same {
		return err
	}
	return p.diverge(last.newest)
}

// diverge goes on at the first record that is not one of those that were read:
// the first that is younger than all of them.
func (p *partition) diverge(newest int64) error {
	cut, err := p.tail.edge(newest + 1)
	if err == nil && cut < 0 { // none is
		cut, err = p.tail.edge(logEnd)
	}
	if err != nil {
		return err
	}
	p.cutAt(cut)
	return nil
}

// cutAt forgets what was known of offsets from one on, and reads them as new.
func (p *partition) cutAt(offset int64) {
	f := p.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	read := max(p.position, p.marks.Position(), p.last.offset+1)
	offset = min(offset, read)
	f.log.Error("log was truncated or made anew below what was read: going on at the first activation that was not",
		"partition", p.index, "read", read, "offset", offset)
	p.cut(offset)
	p.position = min(p.position, offset)
	p.tail.offset = p.position
	signal(f.settled) // of what is forgotten nothing will be completed
	f.commits.changed(f.cfg.CommitAfter, true)
}

// reposition goes where the log is when the position is outside of it: what
// was to be read next has expired, or is not there yet, since the log was
// truncated.
func (p *partition) reposition() error {
	start, err := p.tail.edge(logStart)
	if err != nil {
		return err
	}
	f := p.feed
	f.mu.Lock()
	newest := p.last.newest
	f.mu.Unlock()
	switch {
	case start <= p.tail.offset && newest > 0:
		return p.diverge(newest)
	case start <= p.tail.offset: // nothing tells what was read of it
		p.cutAt(start)
		return nil
	}
	lost := start - p.tail.offset
	f.log.Error("activations expired before they were read: those that the journal has aside they are lost",
		"partition", p.index, "position", p.tail.offset, "offset", start, "lost", lost)
	p.tail.offset = start
	f.mu.Lock()
	defer f.mu.Unlock()
	p.position = start
	f.stats.Lost += lost
	if p.marks.Open() == 0 && p.marks.Position() < start { // else the position follows what is open
		p.marks.forget(start)
		p.marks.advance()
		p.changes++
		f.commits.changed(f.cfg.CommitAfter, true)
	}
	return nil
}

// closing has the last commit say that what runs did not end the process.
func (f *Feed) closing() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.partitions {
		if p.running() {
			p.changes++
		}
	}
}

// unsaved is what the broker should know of each partition and does not.
func (f *Feed) unsaved(closing bool) []standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []standing
	for _, p := range f.partitions {
		if s, news := p.account.unsaved(closing, f.noteChars); news {
			s.from, s.partition = p, p.index
			all = append(all, s)
		}
	}
	return all
}

// saved notes what the broker knows by now.
func (f *Feed) saved(all []standing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range all {
		s.from.safe, s.from.told = s.offset, s.changes
	}
}

// shorten makes do with half of what the broker was thought to take beside a
// position. It tells whether there is anything left to leave out.
func (f *Feed) shorten() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.noteChars == 0 {
		return false
	}
	f.noteChars = shorter(f.noteChars, f.log, f.cfg.Group)
	return true
}

// shorter is half of what a broker was thought to take beside a position, or
// nothing.
func shorter(chars int, log *slog.Logger, group string) int {
	if chars /= 2; chars < 64 {
		chars = 0
	}
	log.Warn("broker takes less beside a position than it does by default (offset.metadata.max.bytes): fewer activations can be open at a time",
		"group", group, "characters", chars)
	return chars
}
