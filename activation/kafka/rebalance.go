package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// assigned takes partitions over at their committed offsets, with the metadata
// of these. The client reads nothing of them before it returns.
func (m *Member) assigned(ctx context.Context, client *kgo.Client, all map[string][]int32) {
	partitions := all[m.cfg.Topic]
	if len(partitions) == 0 {
		return
	}
	var assignments map[int32]*assignment
	for {
		var err error
		if assignments, err = m.fetchOffsets(ctx, client, partitions); err == nil {
			m.assigning.Succeeded()
			break
		}
		if !m.assigning.Wait(ctx, err) {
			return
		}
	}
	m.mu.Lock()
	for i, a := range assignments {
		m.assignments[i] = a
		if a.awaited != "" {
			m.readLater(a)
		} else {
			m.client.ResumeFetchPartitions(map[string][]int32{m.cfg.Topic: {i}})
		}
	}
	m.mu.Unlock()
	m.log.Info("partitions assigned", "partitions", partitions)
}

// fetchOffsets asks where to begin in partitions.
func (m *Member) fetchOffsets(ctx context.Context, client *kgo.Client, partitions []int32) (map[int32]*assignment, error) {
	assignments := map[int32]*assignment{}
	for _, i := range partitions {
		assignments[i] = &assignment{member: m, index: i, progress: progress{tried: map[int64]attempt{}}}
	}
	res, err := m.offsetFetch(partitions).RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("read the committed offsets of group %s: %w", m.cfg.Group, err)
	}
	for _, g := range res.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, fmt.Errorf("read the committed offsets of group %s: %w", m.cfg.Group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("read the committed offset of group %s in partition %d: %w", m.cfg.Group, p.Partition, err)
				}
				if a := assignments[p.Partition]; a != nil && p.Offset >= 0 {
					a.resume(p.Offset, p.Metadata)
				}
			}
		}
	}
	return assignments, nil
}

// offsetFetch asks for offsets as old and as new brokers want to be asked; the
// client sends and answers what fits.
func (m *Member) offsetFetch(partitions []int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = m.cfg.Group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = m.cfg.Topic, partitions
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	return req
}

// versions are those that the client may speak: topics of offsets are told by
// name, which later ones of these two requests do not do.
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 9)
	v.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 9)
	return v
}

// resume begins at a committed offset.
func (a *assignment) resume(offset int64, text *string) {
	var metadata offsetMetadata
	if text != nil {
		own, heartbeat, _ := strings.Cut(*text, heartbeatSeparator)
		a.awaited = heartbeat
		var err error
		if metadata, err = decodeOffsetMetadata(own, offset); err != nil {
			a.member.log.Warn(unusableMetadata, "partition", a.index, "offset", offset, "bytes", len(*text), "error", err)
		}
	}
	a.open(offset, metadata)
	a.next = offset
}

// revoked releases partitions. Of what is open of them a heartbeat stands in the
// metadata of the commit, so that the member that has the partition next does
// not run it a second time; no other member has to wait for that.
func (m *Member) revoked(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	partitions := all[m.cfg.Topic]
	if len(partitions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Session)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	released := m.release(partitions)
	if m.ctx.Err() == nil { // else Close has committed
		which := func() []*assignment { return append(m.assignedTo(partitions), released...) }
		_ = retry.Do(ctx, retry.Default(), func() error { return m.commit(ctx, which, true) }) // what is not committed runs again
	}
	m.forget(partitions)
	for _, a := range released {
		m.owned.Go(func() { m.finishRelease(a) })
	}
	m.log.Info("partitions released", "partitions", partitions, "withRunsOpen", len(released))
}

// lost is called when partitions went to others without a word: we were silent
// for too long. What is open runs there, too.
func (m *Member) lost(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	if partitions := all[m.cfg.Topic]; len(partitions) > 0 {
		m.forget(partitions)
		m.log.Error("partitions went to others while nothing was heard of us: what was running may run there, too",
			"partitions", partitions)
	}
}

func (m *Member) forget(partitions []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range partitions {
		if a := m.assignments[i]; a != nil {
			a.gone = true
			if a.stopWait != nil {
				a.stopWait()
			}
			delete(m.assignments, i)
		}
	}
	m.wake()
}

// assignedTo lists the assignments of partitions, of all when nil.
func (m *Member) assignedTo(partitions []int32) (all []*assignment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, a := range m.assignments {
		if partitions == nil || slices.Contains(partitions, i) {
			all = append(all, a)
		}
	}
	return all
}

// present lists the assignments that we have now.
func (m *Member) present() []*assignment { return m.assignedTo(nil) }

// all lists the present assignments and those that are released.
func (m *Member) all() []*assignment {
	all := m.present()
	m.mu.Lock()
	defer m.mu.Unlock()
	for a := range m.released {
		all = append(all, a)
	}
	return all
}

// commitAtIntervals commits at once after a rest and then at intervals, until
// Close.
func (m *Member) commitAtIntervals() {
	interval := time.NewTimer(0)
	defer interval.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.dirty:
		}
		select {
		case <-m.ctx.Done():
			return
		case <-interval.C:
		}
		interval.Reset(m.cfg.CommitEvery)
		for {
			err := m.commit(m.ctx, m.present, false)
			if err == nil {
				m.committing.Succeeded()
				break
			}
			if errors.Is(err, kerr.RebalanceInProgress) { // the broker takes commits again when that has ended
				retry.Sleep(m.ctx, retry.MinPause)
			} else {
				m.committing.Wait(m.ctx, err)
			}
			if m.ctx.Err() != nil {
				return
			}
		}
	}
}

// commit tells the broker what is new of assignments, as it is when its turn
// comes: an older commit could take back what a newer one has told. It does not
// go the client's own way, which waits for as long as the group rebalances.
func (m *Member) commit(ctx context.Context, which func() []*assignment, closing bool) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Session)
	defer cancel()
	if err := m.commits.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for another commit: %w", err)
	}
	defer m.commits.Release(1)
	for {
		news := m.uncommitted(which(), closing)
		if len(news) == 0 {
			return nil
		}
		err := commitFailure(m.offsetCommit(news).RequestWith(ctx, m.client))
		if errors.Is(err, kerr.OffsetMetadataTooLarge) && m.shortenMetadata() {
			continue
		}
		if err != nil {
			return fmt.Errorf("commit the offsets of group %s: %w", m.cfg.Group, err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for a, c := range news {
			a.committed = c.changes
		}
		return nil
	}
}

func (m *Member) offsetCommit(news map[*assignment]offsetCommit) *kmsg.OffsetCommitRequest {
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = m.cfg.Topic
	for a, c := range news {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = a.index, c.offset, &c.metadata
		t.Partitions = append(t.Partitions, p)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = m.cfg.Group
	req.MemberID, req.Generation = m.client.GroupMetadata()
	req.Topics = append(req.Topics, t)
	return req
}

func commitFailure(res *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// uncommitted is what the broker should know and does not.
func (m *Member) uncommitted(all []*assignment, closing bool) map[*assignment]offsetCommit {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := map[*assignment]offsetCommit{}
	for _, a := range all {
		if a.gone || a.awaited != "" {
			continue
		}
		if closing && a.running() {
			a.changes++
		}
		heartbeat := a.heartbeatText()
		if c, ok := a.progress.uncommitted(closing, max(0, m.metadataChars-len(heartbeat))); ok {
			c.metadata += heartbeat
			news[a] = c
		}
	}
	return news
}

// shortenMetadata makes do with half of what the broker was thought to take as
// metadata. It reports whether there is anything left to leave out.
func (m *Member) shortenMetadata() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.metadataChars == 0 {
		return false
	}
	m.metadataChars = halfMetadata(m.metadataChars, m.log, m.cfg.Group)
	return true
}
