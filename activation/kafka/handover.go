package kafka

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Hand over. A member from which a partition is revoked while something of it is
// open releases it at once, or all others would wait for its runs, those of a
// dead member included. It goes on with what it has: what becomes of that is
// committed as before, with a heartbeat behind the metadata, a number that
// rises. The member that has the partition next finds the heartbeat, reads
// nothing there, and asks again and again: when the heartbeat is gone all that
// was open is completed, and when it does not change any more its writer has
// died, and what was open is treated as after any crash.

// heartbeatSeparator stands between metadata and a heartbeat. It is no letter of
// base64.
const heartbeatSeparator = "+"

// heartbeatChars is what the separator and a heartbeat take at most.
const heartbeatChars = 1 + 13

// A heartbeat is renewed so often in a session and asked for twice as often. A
// member that could not renew it for so many sessions has lost the partition,
// and a while later others read there. While a group rebalances its broker may
// take no commit: for a session, where a member has died meanwhile.
const (
	beatsInSession = 4
	pollsInSession = 2 * beatsInSession
	lostAfter      = 2
	deadAfter      = 4
)

// release is the state of a partition between two members.
type release struct {
	following bool      // another member has something open of it
	heartbeat int64     // our last one, 0: we have not released it
	since     time.Time // of our release
	renewed   time.Time // when the broker last took a heartbeat
}

// release stops the reading of partitions. Those of which something is open get
// a heartbeat; it reports how many these are.
func (m *Member) release(partitions []int32) (open int) {
	m.feed.mu.Lock()
	defer m.feed.mu.Unlock()
	now := time.Now()
	for _, p := range m.feed.partitions {
		if p.heartbeat != 0 || !slices.Contains(partitions, p.index) {
			continue
		}
		p.stop()
		p.records = nil
		if len(p.open) > 0 {
			p.heartbeat, p.since, p.renewed = now.UnixNano(), now, now
			p.changes++
			open++
		}
	}
	signal(m.feed.changed)
	return open
}

// sendHeartbeats has the heartbeats of released partitions committed.
func (m *Member) sendHeartbeats() {
	every := time.NewTicker(m.cfg.Session / beatsInSession)
	defer every.Stop()
	for {
		select {
		case <-m.feed.ctx.Done():
			return
		case now := <-every.C:
			m.beat(now)
		}
	}
}

// beat renews the heartbeats of released partitions, and gives up what has been
// open there for too long.
func (m *Member) beat(now time.Time) {
	m.feed.mu.Lock()
	defer m.feed.mu.Unlock()
	for _, p := range slices.Clone(m.feed.partitions) {
		switch {
		case p.heartbeat == 0:
			continue
		case now.Sub(p.renewed) > lostAfter*m.cfg.Session:
			m.log.Error("a partition that was released with open runs went to another member while no heartbeat could be committed: those runs count as interrupted",
				"partition", p.index)
			m.feed.remove(p)
			continue
		case now.Sub(p.since) > m.cfg.HandOver && !p.closing:
			m.log.Warn("runs of a partition that was released are open for too long: they count as interrupted", "partition", p.index)
			p.close()
		}
		p.heartbeat++
		p.changes++
		m.feed.commits.changed(true)
	}
}

// offsetCommit is what a commit holds of one partition.
type offsetCommit struct {
	offset   int64
	metadata string
	changes  uint64 // of the partition that this commits
}

// commit is what is to be committed now. Behind the metadata of a partition
// that was released with something open there is a heartbeat, until it is closed.
func (p *partition) commit(chars int) offsetCommit {
	heartbeat := ""
	if p.heartbeat != 0 && len(p.open) > 0 && !p.closing && chars > 0 {
		heartbeat = heartbeatSeparator + strconv.FormatInt(p.heartbeat, 36)
	}
	c := offsetCommit{offset: p.offset(), changes: p.changes}
	c.metadata, _ = p.metadata(chars).encode(c.offset, max(0, chars-len(heartbeat)))
	c.metadata += heartbeat
	return c
}

// handedOver records that the broker has a commit of a partition, and reports
// whether that was the last one of a partition that was released.
func (p *partition) handedOver() bool {
	p.renewed = time.Now()
	return p.heartbeat != 0 && p.committed == p.changes && (len(p.open) == 0 || p.closing)
}

// committedOffset reads the committed offset of the partition and its metadata.
// That of a member waits until no other member has anything open of it.
func (p *partition) committedOffset(ctx context.Context) (offset int64, metadata string, ok bool, err error) {
	f, last, same := p.feed, "", 0
	for {
		offset, metadata, ok, err = p.reader.committed(ctx, f.cfg.Group)
		if err != nil || f.member == nil {
			return offset, metadata, ok, err
		}
		text, heartbeat, open := strings.Cut(metadata, heartbeatSeparator)
		switch {
		case !open:
			return offset, text, ok, nil
		case heartbeat != last: // unlike a clock, this counts nothing while we stand still
			last, same = heartbeat, 0
		case same < deadAfter*pollsInSession:
			same++
		default:
			f.log.Warn("the member that had open runs of a partition is gone: they count as interrupted", "partition", p.index)
			return offset, text, ok, nil
		}
		p.follow()
		if !retry.Sleep(ctx, f.member.cfg.Session/pollsInSession) {
			return 0, "", false, ctx.Err()
		}
	}
}

// follow records that another member has something open of the partition.
func (p *partition) follow() {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	if !p.following {
		p.feed.log.Info("partition waits for another member's open activations", "partition", p.index)
	}
	p.following = true
}
