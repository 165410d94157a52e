package kafka

import (
	"hash/crc32"
	"maps"
	"slices"
)

// progress is what is known of the records of one partition: which are open and
// which completed, which have begun to run, and which was read last. Its owner
// guards it.
type progress struct {
	watermark *watermark // nil until it is known where to begin
	// runs are those of what is open, and those that an earlier process began and
	// this one has not come to again. A delivery that is not among them is
	// completed, or its record is not there any more.
	runs      map[int64]*attempt
	last      lastRecord
	closing   bool   // what runs has not ended the process: it is left to the next one
	changes   uint64 // rises with whatever is to be committed
	committed uint64 // changes that the broker has
}

// open takes over a committed offset and its metadata.
func (p *progress) open(offset int64, m offsetMetadata) {
	p.watermark, p.last, p.runs = newWatermark(offset, m.done), m.last, map[int64]*attempt{}
	for _, t := range m.tried {
		if !p.watermark.finished(t.offset) {
			p.runs[t.offset] = &t
		}
	}
}

// read records that a record was read, and reports whether it is to be handed out:
// not if an earlier process completed it.
func (p *progress) read(r record) bool {
	p.last.see(r)
	return !p.watermark.finished(r.offset)
}

// deliver hands a record out.
func (p *progress) deliver(r record) Delivery {
	p.watermark.begin(r.offset)
	run := p.runs[r.offset]
	if run == nil {
		run = &attempt{offset: r.offset}
		p.runs[r.offset] = run
	}
	return Delivery{Offset: r.offset, Timestamp: r.time, Begun: run.begun, Attempts: run.attempts, run: run}
}

// start records that an activation begins to run. It reports whether that is news,
// and whether it had begun in an earlier process.
func (p *progress) start(run *attempt) (news, again bool) {
	if run.here || p.runs[run.offset] != run {
		return false, false
	}
	again = run.tried()
	run.here = true
	p.changes++
	return true, again
}

// end records that an activation is completed, and reports whether that is news.
func (p *progress) end(run *attempt) bool {
	if p.runs[run.offset] != run {
		return false
	}
	p.watermark.finish(run.offset)
	delete(p.runs, run.offset)
	p.changes++
	return true
}

// cut forgets everything from an offset on: the log has become another one
// there.
func (p *progress) cut(offset int64) {
	p.watermark.cut(offset)
	p.last = lastRecord{newest: p.last.newest}
	maps.DeleteFunc(p.runs, func(o int64, _ *attempt) bool { return o >= offset })
	p.changes++
}

// openCount is how many records are handed out and not completed.
func (p *progress) openCount() int {
	if p.watermark == nil {
		return 0
	}
	return len(p.watermark.open)
}

// close has commits count no run as one that ended the process from now on.
func (p *progress) close() {
	p.closing = true
	for _, run := range p.runs {
		if run.here {
			p.changes++
			return
		}
	}
}

// hasCapacity reports whether another record may be handed out: what is open then
// fits into the metadata of a commit, however it ends, or what it is now takes
// not even half of the space.
func (p *progress) hasCapacity(chars int) bool {
	if p.openCount() == 0 || chars == 0 {
		return true
	}
	if metadataFits(int64(p.openCount())+1, p.watermark.window()+1, metadataBits(chars)) {
		return true
	}
	_, whole := p.metadata().encode(p.watermark.offset(), chars/2)
	return whole && p.watermark.window() < maxWindow
}

// offsetCommit is what a commit holds of one partition.
type offsetCommit struct {
	offset   int64
	metadata string
	whole    bool   // nothing was left out of the metadata
	changes  uint64 // of the partition that this commits
}

// metadata is what is to be committed beside the offset.
func (p *progress) metadata() *offsetMetadata {
	m := &offsetMetadata{last: p.last, done: p.watermark.done()}
	for _, offset := range slices.Sorted(maps.Keys(p.runs)) {
		run := *p.runs[offset]
		if !run.tried() || offset < p.watermark.offset() { // below it, what had begun has expired
			continue
		}
		if run.here {
			run.begun = true
			if !p.closing {
				run.attempts++
			}
		}
		m.tried = append(m.tried, run)
	}
	return m
}

// see records a record that was read. A start reads again what lies below the
// last record of the metadata, which stays the last one.
func (l *lastRecord) see(r record) {
	l.newest = max(l.newest, r.time.UnixMilli())
	if !l.ok || r.offset > l.offset {
		l.offset, l.sum, l.ok = r.offset, checksum(r.value), true
	}
}

func checksum(value []byte) uint32 { return crc32.Checksum(value, castagnoli) }
