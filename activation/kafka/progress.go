package kafka

import (
	"hash/crc32"
	"slices"
	"sort"
)

// progress is the state of one partition: the open offsets, the completed ones, and the last
// record read. Offsets are handed out in order and completed in any order. A commit names the
// offset below which all are completed, and the completed offsets above it, so a restart
// repeats none of them. It is not safe for concurrent use.
//
// Invariant: open is ascending and below next. The ranges of ahead are ascending, begin above
// next and have gaps between them. Each offset below next that is not open is completed.
type progress struct {
	located bool          // it is known where to begin
	open    []*openOffset // handed out and not completed
	next    int64         // no offset from here on was handed out
	// Completions and marks of an earlier process at offsets that this process has not
	// reached yet.
	ahead   []offsetRange
	earlier []*openOffset // rising

	last      lastRecord
	changes   uint64 // rises with whatever is to be committed
	committed uint64 // changes that the broker has
}

// offsetRange is a run of offsets, from the first to the one before end.
type offsetRange struct{ from, end int64 }

// openOffset is an offset that is not completed.
type openOffset struct {
	offset  int64
	mark    uint8 // the caller's mark in the metadata; 0: none
	stopped uint8 // the mark to commit when the feed is closed
}

// lastRecord identifies a log. If a log has a different record at the offset, or none, it is a
// different log.
type lastRecord struct {
	offset int64
	sum    uint32 // of the record's value
	newest int64  // Unix ms: the latest time of all records up to the offset
	ok     bool   // there is one
}

// resume takes over a committed offset and its metadata.
func (p *progress) resume(offset int64, m offsetMetadata) {
	p.located, p.next, p.ahead, p.last = true, offset, slices.Clone(m.done), m.last
	p.open, p.earlier = nil, nil
	for _, o := range m.marked {
		if o.stopped = o.mark; !p.finished(o.offset) {
			p.earlier = append(p.earlier, &o)
		}
	}
}

// read records that a record was read. It returns false if an earlier process completed the
// record, so that it is not handed out.
func (p *progress) read(r record) bool {
	p.last.see(r)
	return !p.finished(r.offset)
}

// deliver hands a record out. Offsets must rise. An offset that is left out counts as
// completed: it is completed, or it holds no message, because a log may have holes.
func (p *progress) deliver(r record) Delivery {
	if r.offset < p.next {
		panic("kafka: offsets are handed out out of order")
	}
	o := &openOffset{offset: r.offset}
	if i, found := find(p.earlier, r.offset); found {
		o = p.earlier[i]
		p.earlier = slices.Delete(p.earlier, i, i+1)
	}
	p.open = append(p.open, o)
	p.skipTo(r.offset + 1)
	return Delivery{Offset: r.offset, Timestamp: r.time, Mark: o.mark, open: o}
}

// find searches for an offset in a list in ascending order.
func find(all []*openOffset, offset int64) (i int, found bool) {
	return sort.Find(len(all), func(i int) int { return int(offset - all[i].offset) })
}

// skipTo marks all offsets below the given one as handed out. Those that were never handed out
// count as completed.
func (p *progress) skipTo(offset int64) {
	p.next = max(p.next, offset)
	for len(p.ahead) > 0 && p.ahead[0].from <= p.next {
		p.next = max(p.next, p.ahead[0].end)
		p.ahead = p.ahead[1:]
	}
	i, _ := find(p.earlier, p.next) // earlier marks below next have expired
	p.earlier = p.earlier[i:]
}

// setMark sets the marks of an open activation. It is a no-op after the end, or if the record
// is gone.
func (p *progress) setMark(o *openOffset, mark, stopped uint8) {
	if i, found := find(p.open, o.offset); found && p.open[i] == o {
		o.mark, o.stopped = min(mark, maxMark), min(stopped, maxMark)
		p.changes++
	}
}

// end records that an activation is completed, and reports whether that is news.
func (p *progress) end(o *openOffset) bool {
	i, found := find(p.open, o.offset)
	if !found || p.open[i] != o {
		return false
	}
	p.open = slices.Delete(p.open, i, i+1)
	p.changes++
	return true
}

// cut forgets all offsets from the given one on, because the log was replaced there.
func (p *progress) cut(offset int64) {
	above := func(o *openOffset) bool { return o.offset >= offset }
	p.open = slices.DeleteFunc(p.open, above)
	p.earlier = slices.DeleteFunc(p.earlier, above)
	p.next = min(p.next, offset)
	p.ahead = slices.DeleteFunc(p.ahead, func(r offsetRange) bool { return r.from >= offset })
	if n := len(p.ahead); n > 0 {
		p.ahead[n-1].end = min(p.ahead[n-1].end, offset)
	}
	p.last = lastRecord{newest: p.last.newest}
	p.changes++
}

// close sets the marks for the last commit.
func (p *progress) close() {
	for _, o := range p.open {
		if o.mark != o.stopped {
			o.mark = o.stopped
			p.changes++
		}
	}
}

// offset returns the offset to commit: the first one that must be read again after a crash.
func (p *progress) offset() int64 {
	if len(p.open) > 0 {
		return p.open[0].offset
	}
	return p.next
}

// window returns the distance from the offset to commit to the last offset that was handed out
// or is known to be completed.
func (p *progress) window() int64 {
	if n := len(p.ahead); n > 0 {
		return p.ahead[n-1].end - p.offset()
	}
	return p.next - p.offset()
}

// finished reports whether an offset is completed.
func (p *progress) finished(offset int64) bool {
	if offset < p.next {
		_, open := find(p.open, offset)
		return !open
	}
	return slices.ContainsFunc(p.ahead, func(r offsetRange) bool { return r.from <= offset && offset < r.end })
}

// metadata returns the metadata to commit. It stops collecting when the text would certainly
// exceed chars characters; each entry takes at least two.
func (p *progress) metadata(chars int) *offsetMetadata {
	m := &offsetMetadata{last: p.last}
	at := p.offset()
	for _, o := range slices.Concat(p.open, p.earlier) {
		if o.mark != 0 {
			m.marked = append(m.marked, openOffset{offset: o.offset, mark: o.mark})
		}
	}
	for _, o := range p.open {
		if len(m.done) > chars/2 {
			return m
		}
		if at < o.offset {
			m.done = append(m.done, offsetRange{at, o.offset})
		}
		at = o.offset + 1
	}
	if at < p.next {
		m.done = append(m.done, offsetRange{at, p.next})
	}
	m.done = append(m.done, p.ahead...)
	return m
}

// hasCapacity reports whether another record may be handed out: either the metadata fits
// however the open activations end, or the present metadata takes less than half of the space.
func (p *progress) hasCapacity(chars int) bool {
	if len(p.open) == 0 || chars == 0 {
		return true
	}
	if metadataFits(int64(len(p.open))+1, p.window()+1, chars) {
		return true
	}
	_, whole := p.metadata(chars).encode(p.offset(), chars/2)
	return whole && p.window() < maxWindow
}

// see updates lastRecord with a record that was read. After a restart, records below the last
// record of the metadata are read again, and the last record then stays the same.
func (l *lastRecord) see(r record) {
	l.newest = max(l.newest, r.time.UnixMilli())
	if !l.ok || r.offset > l.offset {
		l.offset, l.sum, l.ok = r.offset, checksum(r.value), true
	}
}

func checksum(value []byte) uint32 { return crc32.Checksum(value, castagnoli) }
