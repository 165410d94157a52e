package kafka

import (
	"hash/crc32"
	"maps"
	"slices"
)

// account is what is known of the records of one partition: which are open and
// which completed, which have begun to run, and which was read last. Its owner
// guards it.
type account struct {
	marks   *Watermark    // nil until the position is known
	tried   map[int64]try // of what is open and has begun to run, here or before
	last    mark
	cuts    []int64 // where the log became another one, a cut for each epoch that is over
	changes uint64  // rises with whatever a commit should say
	told    uint64  // changes that the broker knows of
}

// open takes over a position and what stood beside it.
func (a *account) open(position int64, n note) {
	a.marks, a.last, a.tried = NewWatermark(position), n.last, map[int64]try{}
	a.marks.Restore(n.done)
	for _, t := range n.tried {
		if !a.marks.Finished(t.offset) {
			a.tried[t.offset] = t
		}
	}
}

// meet notes that a record was read, and tells whether it is to be handed out:
// not if an earlier process completed it.
func (a *account) meet(r record) bool {
	a.last.see(r)
	return !a.marks.Finished(r.offset)
}

// hand hands a record out.
func (a *account) hand(r record) Delivery {
	a.marks.Begin(r.offset)
	before := a.tried[r.offset]
	return Delivery{
		Offset: r.offset, Timestamp: r.time, Begun: before.begun, Attempts: before.attempts, epoch: len(a.cuts),
	}
}

// start notes that an activation begins to run. It tells whether that is news,
// and whether it had begun in an earlier process.
func (a *account) start(epoch int, offset int64) (news, again bool) {
	t, again := a.tried[offset]
	if t.here || !a.valid(epoch, offset) || a.marks.Finished(offset) {
		return false, false
	}
	t.offset, t.here = offset, true
	a.tried[offset] = t
	a.changes++
	return true, again
}

// end notes that an activation is completed, and tells whether that is news.
func (a *account) end(epoch int, offset int64) bool {
	if !a.valid(epoch, offset) || !a.marks.Finish(offset) {
		return false
	}
	delete(a.tried, offset)
	a.changes++
	return true
}

// valid tells whether a delivery's offset is still that of its record: not if
// the log was cut below it since.
func (a *account) valid(epoch int, offset int64) bool {
	for _, cut := range a.cuts[epoch:] {
		if offset >= cut {
			return false
		}
	}
	return true
}

// cut forgets everything from an offset on: the log has become another one
// there.
func (a *account) cut(offset int64) {
	a.cuts = append(a.cuts, offset)
	a.marks.Cut(offset)
	a.last = mark{newest: a.last.newest}
	maps.DeleteFunc(a.tried, func(o int64, _ try) bool { return o >= offset })
	a.changes++
}

// running tells whether anything that has begun to run here is open.
func (a *account) running() bool {
	for _, t := range a.tried {
		if t.here {
			return true
		}
	}
	return false
}

// roomy tells whether another record may be handed out: what is open then can
// be named beside the position, however it ends, or what is to be named now
// takes not even half of the room.
func (a *account) roomy(chars int) bool {
	if a.marks == nil || a.marks.Open() == 0 || chars == 0 {
		return true
	}
	if noteFits(int64(a.marks.Open())+1, a.marks.Window()+1, noteBits(chars)) {
		return true
	}
	_, whole := a.note(true).encode(a.marks.Position(), chars/2)
	return whole && a.marks.Window() < maxWindow
}

// unsaved is what a commit should say now, if there is news. One that is closing
// has not been ended by what runs.
func (a *account) unsaved(closing bool, chars int) (s standing, news bool) {
	if a.marks == nil || a.told == a.changes {
		return standing{}, false
	}
	s = standing{offset: a.marks.Position(), changes: a.changes}
	s.note, s.whole = a.note(closing).encode(s.offset, chars)
	return s, true
}

// note is what should stand beside the position.
func (a *account) note(closing bool) *note {
	n := &note{last: a.last, done: slices.Collect(a.marks.Done)}
	for _, offset := range slices.Sorted(maps.Keys(a.tried)) {
		t := a.tried[offset]
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

// see notes a record that was read. A start reads again what lies below the
// last one that is known of, which goes on standing for all.
func (m *mark) see(r record) {
	m.newest = max(m.newest, r.time.UnixMilli())
	if !m.ok || r.offset > m.offset {
		m.offset, m.sum, m.ok = r.offset, sumOf(r.value), true
	}
}

func sumOf(value []byte) uint32 { return crc32.Checksum(value, castagnoli) }
