package kafka

import (
	"context"
	"errors"
	"log/slog"
	"time"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// growEvery is the number of measurements of the lag after which the first partition also asks
// whether the topic has more partitions.
const growEvery = 6

// partition is one partition of a feed's topic. Its goroutine fetches on request. While
// nothing is fetched, the goroutine asks for the end of the partition from time to time,
// because the lag grows when there is no capacity.
type partition struct {
	feed    *Feed
	index   int32
	ctx     context.Context // ends with the feed
	want    chan struct{}   // fetch once; one signal is enough
	reading *retry.Retrier

	// Only the goroutine uses these fields.
	reader    *partitionReader
	measure   *time.Ticker
	grown     time.Time // when it last asked whether the topic has more partitions
	unfetched bool      // nothing was fetched yet from the committed offset on
	drained   time.Time // when the last fetch had read all records; zero: never

	// The feed's mu guards these fields.
	progress
	records   []record  // fetched and not yet handed out
	after     time.Time // the time at which the records were not in the log yet
	asked     bool      // a fetch is under way
	position  int64     // the offset that is read next
	confirmed int64     // the committed offset, -1 before the first commit
	end       int64     // of the partition, when last known
	endKnown  time.Time
	anyRead   bool
}

func newPartition(f *Feed, index int32) *partition {
	log := f.log
	if index > 0 {
		log = log.With("partition", index)
	}
	return &partition{
		feed: f, index: index, ctx: f.ctx, want: make(chan struct{}, 1), confirmed: -1,
		reading: retry.New(log, "reading of activations"),
		reader:  f.cluster.reader(f.cfg.Topic, index, 1, fetchBytes, fetchWait),
		measure: time.NewTicker(f.cfg.LagEvery),
		grown:   time.Now(),
	}
}

// run fetches once for each signal on want, until the feed ends.
func (p *partition) run() {
	defer p.reader.close()
	defer p.measure.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.want:
			p.fetchSome()
		case <-p.measure.C:
			p.measureLag()
		}
	}
}

// fetchSome fetches until there is a record, or the feed ends.
func (p *partition) fetchSome() {
	var records []record
	var after time.Time
	for again := false; len(records) == 0 && p.ctx.Err() == nil; {
		after = p.drained
		var err error
		records, err = p.fetch()
		switch {
		case err == nil:
			again = false
			p.reading.Succeeded()
		case closedByPeer(err) && !again: // a new connection may do
			again = true
			continue
		default:
			p.reader.close()
			p.reading.Wait(p.ctx, err)
			continue
		}
		select {
		case <-p.measure.C:
			p.measureLag()
		default:
		}
	}
	p.feed.mu.Lock()
	p.records, p.after, p.asked = records, after, false
	p.feed.mu.Unlock()
	signal(p.feed.changed)
}

// ready connects, unless it is connected. Meanwhile the topic may have been truncated or
// created anew, so over a new connection it checks the log before anything is read.
func (p *partition) ready() error {
	fresh, err := p.reader.connect(p.ctx, p.reader.partition)
	if err != nil {
		return err
	}
	if !p.located { // only this goroutine sets it
		if err := p.locate(p.ctx); err != nil {
			return err
		}
	}
	if !fresh {
		return nil
	}
	p.feed.grow(p.reader.partitions)
	return p.verify(p.ctx)
}

// fetch asks the broker once for more records.
func (p *partition) fetch() ([]record, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	began := time.Now()
	// Over a new connection the log may be a different log, so the request is not sent again.
	records, err := p.reader.fetchWithin(p.ctx, p.reader.wait, call[*wire.FetchResponse])
	if errors.Is(err, wire.OffsetOutOfRange) {
		p.drained = time.Time{}
		return nil, p.reposition(p.ctx)
	}
	if err == nil {
		p.unfetched = false
		p.setEnd(p.reader.end)
		if p.reader.end == p.reader.offset {
			p.drained = began
		}
	}
	return records, err
}

// measureLag asks for the end of the partition if the known end is old. Now and then it also
// asks whether the topic has more partitions. It does not report failures, because the next
// fetch reports them.
func (p *partition) measureLag() {
	every := p.feed.cfg.LagEvery
	grow := p.index == 0 && time.Since(p.grown) >= growEvery*every
	if !p.located || !grow && time.Since(p.endKnown) < every {
		return
	}
	if grow {
		p.reader.close() // a new connection reports how many partitions there are
		p.grown = time.Now()
	}
	if p.ready() != nil {
		return
	}
	if end, err := p.reader.find(p.ctx, wire.LastOffset); err == nil {
		p.setEnd(end)
	}
}

// setEnd records the end of the partition.
func (p *partition) setEnd(end int64) {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	p.end = end
	p.endKnown = time.Now()
}

// locate finds the offset to begin at: the group's committed offset, or the beginning of the
// log if there is none (auto.offset.reset=earliest of the original).
func (p *partition) locate(ctx context.Context) error {
	f := p.feed
	offset, text, ok, err := p.reader.committed(ctx, f.cfg.Group)
	if err != nil {
		return err
	}
	if !ok {
		offset, err = p.reader.find(ctx, wire.FirstOffset)
		if err != nil {
			return err
		}
		f.log.Info("group has no committed offset, reading from the beginning",
			"group", f.cfg.Group, "partition", p.index, "offset", offset)
	}
	m, err := decodeOffsetMetadata(text, offset)
	if err != nil {
		f.log.Warn(unusableMetadata, "group", f.cfg.Group, "partition", p.index, "offset", offset, "bytes", len(text), "error", err)
	}
	p.unfetched = ok
	p.startAt(offset, ok, m)
	return nil
}

const unusableMetadata = "metadata of the committed offset cannot be used: activations behind the offset run again though some may have ended"

// startAt starts at a committed offset with the metadata of its commit.
func (p *partition) startAt(offset int64, committed bool, m offsetMetadata) {
	f := p.feed
	p.reader.offset = offset
	f.mu.Lock()
	defer f.mu.Unlock()
	p.resume(offset, m)
	p.position = offset
	if committed {
		p.confirmed = offset
	}
	if len(m.done)+len(m.marked) > 0 {
		f.log.Info("resuming between activations that have ended",
			"partition", p.index, "offset", offset, "upTo", m.last.offset, "marked", len(p.earlier))
	}
}

// deliver makes a delivery of the first fetched record. It returns false if an earlier process
// has completed that record, or if the log was replaced. A record that cannot be decoded is
// completed at once; otherwise it would hold back the committed offset for ever.
func (p *partition) deliver(first *record) (Delivery, bool) {
	r := *first
	f := p.feed
	if f.cfg.Delay != nil {
		f.cfg.Delay(max(0, time.Since(r.time)))
	}
	var m *activation.Message
	var err error
	if !f.cfg.Raw {
		m, err = activation.DecodeMessage(r.value)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(p.records) == 0 || &p.records[0] != first { // read again
		return Delivery{}, false
	}
	p.records[0] = record{}
	p.records = p.records[1:]
	p.position = r.offset + 1
	p.anyRead = true
	if !p.read(r) {
		f.stats.SkippedCompleted++
		return Delivery{}, false
	}
	d := p.progress.deliver(r)
	d.Message, d.Partition, d.After, d.partition = m, p.index, p.after, p
	if f.cfg.Raw {
		d.Value = r.value
	}
	if err == nil {
		f.stats.Delivered++
		return d, true
	}
	f.stats.Undecodable++
	f.undecodable.Log(f.log, slog.LevelError, "activation message cannot be decoded, skipped",
		"partition", p.index, "offset", r.offset, "bytes", len(r.value), "error", err)
	p.completed(d.open)
	return Delivery{}, false
}

// completed records that an activation is completed. The caller must hold the feed's lock.
func (p *partition) completed(o *openOffset) {
	if !p.progress.end(o) {
		return
	}
	if p.feed.stats.ReadPaused {
		signal(p.feed.changed)
	}
	signal(p.feed.commits.dirty)
}

// lag returns how many records wait in Kafka.
func (p *partition) lag() int64 {
	if !p.anyRead {
		return 0
	}
	return max(0, p.end-p.position)
}

func (p *partition) stats() PartitionStats {
	return PartitionStats{
		Partition: p.index, Position: p.position, Committed: p.confirmed, HighWatermark: p.end,
		Open: len(p.open), Interrupted: p.reading.LastError(),
	}
}
