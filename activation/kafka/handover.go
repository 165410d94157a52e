package kafka

import (
	"context"
	"strconv"
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

// heartbeatChars is what the mark and a heartbeat take at most.
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

// heartbeatText is what stands behind the metadata. The caller holds the lock.
func (a *assignment) heartbeatText() string {
	if a.heartbeat == 0 || a.openCount() == 0 || a.member.metadataChars == 0 || a.member.ctx.Err() != nil {
		return ""
	}
	return heartbeatSeparator + strconv.FormatInt(a.heartbeat, 36)
}

// release takes partitions of which something is open out of the assignments.
// One that waits for another member has nothing open.
func (m *Member) release(partitions []int32) (released []*assignment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range partitions {
		a := m.assignments[i]
		if a == nil || a.awaited != "" || a.openCount() == 0 {
			continue
		}
		a.heartbeat, a.settled = time.Now().UnixNano(), make(chan struct{}, 1)
		a.changes++
		delete(m.assignments, i)
		m.released[a] = struct{}{}
		released = append(released, a)
	}
	return released
}

// finishRelease commits what becomes of a released partition, and heartbeats,
// until nothing of it is open, or for too long. Close commits for itself.
func (m *Member) finishRelease(a *assignment) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.HandOver)
	defer cancel()
	every := time.NewTicker(m.cfg.Session / beatsInSession)
	defer every.Stop()
	only := func() []*assignment { return []*assignment{a} }
	renewed := time.Now()
	for {
		switch err := m.commit(ctx, only, false); {
		case err == nil && m.allCommitted(a):
			m.drop(a)
			return
		case err == nil:
			renewed = time.Now()
		case time.Since(renewed) > lostAfter*m.cfg.Session:
			m.log.Error("a partition that was released with runs open went to another member, which could not hear of us: it takes them for interrupted", "partition", a.index, "error", err)
			m.drop(a)
			return
		}
		select {
		case <-a.settled:
		case <-every.C:
		case <-ctx.Done():
			m.giveUpRelease(a)
			return
		}
		m.beat(a, a.heartbeat+1)
	}
}

// giveUpRelease ends the heartbeats of a released partition of which something
// has been open for too long.
func (m *Member) giveUpRelease(a *assignment) {
	if m.ctx.Err() != nil { // Close commits what is open
		return
	}
	m.log.Warn("runs of a partition that was released are open for too long: another member takes them for interrupted", "partition", a.index)
	m.beat(a, 0)
	_ = m.commit(m.ctx, func() []*assignment { return []*assignment{a} }, true) // else the heartbeat only stops to change
	m.drop(a)
}

func (m *Member) beat(a *assignment, heartbeat int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.heartbeat = heartbeat
	a.changes++
}

// allCommitted reports whether the broker knows that nothing of an assignment is
// open: what was completed while a commit was under way is not in that.
func (m *Member) allCommitted(a *assignment) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return a.openCount() == 0 && a.committed == a.changes
}

// drop forgets a released partition: nothing of it is committed any more.
func (m *Member) drop(a *assignment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.gone = true
	delete(m.released, a)
	m.wake()
}

// readLater has nothing read of a partition of which another member has
// something open, and waits for the end of that beside it. The caller holds the
// lock.
func (m *Member) readLater(a *assignment) {
	ctx, cancel := context.WithCancel(m.ctx)
	a.stopWait = cancel
	m.client.PauseFetchPartitions(map[string][]int32{m.cfg.Topic: {a.index}})
	m.owned.Go(func() {
		defer cancel()
		m.awaitRelease(ctx, a)
	})
}

// awaitRelease waits until the other member has completed what it has, or is
// gone, and resumes the partition as it stands then.
func (m *Member) awaitRelease(ctx context.Context, a *assignment) {
	heartbeat, same := a.awaited, 0 // times that it was found unchanged: while we stand still we see nothing of others
	m.log.Info("partition waits for what another member has of it", "partition", a.index)
	for retry.Sleep(ctx, m.cfg.Session/pollsInSession) {
		all, err := m.fetchOffsets(ctx, m.client, []int32{a.index})
		if err != nil {
			same = 0 // nothing is known of the other member
			continue
		}
		fresh := all[a.index]
		switch {
		case fresh.awaited == "":
		case fresh.awaited != heartbeat:
			heartbeat, same = fresh.awaited, 0
			continue
		case same < deadAfter*pollsInSession:
			same++
			continue
		default:
			m.log.Warn("the member that had runs open of a partition is gone: they are treated as after a crash", "partition", a.index)
		}
		m.resume(a, fresh)
		return
	}
}

// resume has a partition read from where the other member left it.
func (m *Member) resume(a, fresh *assignment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.gone {
		return
	}
	a.progress, a.awaited = fresh.progress, ""
	a.skip, a.next = offsetRange{a.next, fresh.next}, fresh.next
	a.changes++ // the heartbeat is not to stay there
	signal(m.dirty)
	m.client.ResumeFetchPartitions(map[string][]int32{m.cfg.Topic: {a.index}})
	m.log.Info("partition is read", "partition", a.index)
}
