package kafka

import (
	"context"
	"errors"

	wire "github.com/segmentio/kafka-go"
)

// fill asks the broker once for more records, or waits a little after a
// failure.
func (f *Feed) fill(ctx context.Context) {
	records, err := f.fetch(ctx)
	f.records = records
	if err == nil {
		f.reading.Over()
		return
	}
	f.tail.drop()
	if f.over(ctx) != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	f.reading.Failed(ctx, err)
}

func (f *Feed) fetch(ctx context.Context) ([]record, error) {
	if err := f.tail.connect(ctx, f.ctx); err != nil {
		return nil, err
	}
	if f.marks == nil {
		if err := f.locate(ctx); err != nil {
			return nil, err
		}
	}
	records, err := f.tail.fetch(ctx)
	if errors.Is(err, wire.OffsetOutOfRange) {
		return nil, f.reposition()
	}
	if err == nil {
		f.hear(f.tail.end)
	}
	return records, err
}

// locate finds where to begin: at the group's committed position, or at the
// beginning of the log when it has none (auto.offset.reset=earliest of the
// original).
func (f *Feed) locate(ctx context.Context) error {
	life, cancel := context.WithCancel(f.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	l, err := f.cluster.coordinator(life, f.cfg.Group)
	if err != nil {
		return err
	}
	defer l.close()
	offset, ok, err := committedOffset(l, f.cfg.Group, f.cfg.Topic)
	if err != nil {
		return err
	}
	if !ok {
		offset, err = f.tail.edge(logStart)
		if err != nil {
			return err
		}
		f.log.Info("group has no position, reading from the beginning", "group", f.cfg.Group, "offset", offset)
	}
	f.jump(offset, ok)
	return nil
}

// jump starts reading at an offset, with no memory of what was read before.
func (f *Feed) jump(offset int64, committed bool) {
	f.tail.offset = offset
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marks = NewWatermark(offset)
	f.epoch++
	f.stats.Position = offset
	f.stats.Committed = -1
	if committed {
		f.stats.Committed = offset
	}
}

// reposition goes to the beginning of the log when the position is outside it:
// what was to be read next has expired, or the log was made anew.
func (f *Feed) reposition() error {
	start, err := f.tail.edge(logStart)
	if err != nil {
		return err
	}
	if start < f.tail.offset {
		f.log.Error("log ends before the position: the topic was truncated or made anew; reading it from the beginning",
			"position", f.tail.offset, "offset", start)
		f.jump(start, false)
		return nil
	}
	lost := start - f.tail.offset
	f.log.Error("activations expired before they were read",
		"position", f.tail.offset, "offset", start, "lost", lost)
	f.tail.offset = start
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.Position = start
	f.stats.Lost += lost
	return nil
}

// uncommitted is the position that the broker should know and does not.
func (f *Feed) uncommitted() (position int64, epoch int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.marks == nil {
		return 0, 0, false
	}
	position = f.marks.Position()
	return position, f.epoch, position != f.stats.Committed
}

// committed notes what the broker knows by now.
func (f *Feed) committed(position int64, epoch int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if epoch == f.epoch {
		f.stats.Committed = position
	}
}
