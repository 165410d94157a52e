package kafka

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// Handing over. A member that gives a partition up while something of it is open
// leaves the group's assignment at once, or all others would wait for its runs,
// those of a dead member included. It goes on with what it has: what becomes of
// it is committed as before, with a sign of life behind the note, a number that
// rises. The member that has the partition next finds the sign, reads nothing
// there, and looks again and again: when the sign is gone all that was open is
// completed, and when it does not change any more its writer has died, and what
// was open is treated as after any crash.

// signMark stands between a note and a sign of life. It is no letter of base64.
const signMark = "+"

// signRoom is what a mark and a sign take at most.
const signRoom = 1 + 13

// A sign is renewed so often in a session and looked for twice as often; who could
// not renew it for so many sessions has lost the partition, and a while later others
// read there. While a
// group is being balanced anew its broker takes no commit: for a session, where a
// member has died meanwhile.
const (
	signsInSession = 4
	looksInSession = 2 * signsInSession
	signLosesAfter = 2
	signEndsAfter  = 4
)

// shownSign is what stands behind a claim's note. The caller holds the lock.
func (c *claim) shownSign() string {
	if c.sign == 0 || c.marks.Open() == 0 || c.share.noteChars == 0 || c.share.ctx.Err() != nil {
		return ""
	}
	return signMark + strconv.FormatInt(c.sign, 36)
}

// leave takes partitions of which something is open out of the claims, and gives
// those up that wait for another member: they have nothing open.
func (s *Share) leave(partitions []int32) (leaving []*claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range partitions {
		c := s.claims[i]
		if c == nil || c.awaits != "" || c.marks == nil || c.marks.Open() == 0 {
			continue
		}
		c.sign, c.settled = time.Now().UnixNano(), make(chan struct{}, 1)
		c.changes++
		delete(s.claims, i)
		s.leaving[c] = struct{}{}
		leaving = append(leaving, c)
	}
	return leaving
}

// keeping lists the claims that are not being left.
func (s *Share) keeping() (all []*claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		all = append(all, c)
	}
	return all
}

// finishLeaving commits what becomes of a claim that is being left, and signs of
// life, until nothing of it is open, or for too long.
func (s *Share) finishLeaving(c *claim) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.HandOver)
	defer cancel()
	every := time.NewTicker(s.cfg.Session / signsInSession)
	defer every.Stop()
	shown := time.Now()
	for {
		err := s.tellOf(ctx, c, false)
		switch {
		case err == nil:
			shown = time.Now()
		case time.Since(shown) > signLosesAfter*s.cfg.Session:
			s.log.Error("a partition that was given up with runs open went to another member, which could not hear of us: it takes them for interrupted", "partition", c.index, "error", err)
			s.left(c)
			return
		}
		if err == nil && s.told(c) {
			s.left(c)
			return
		}
		select {
		case <-c.settled:
		case <-every.C:
		case <-ctx.Done():
			if s.ctx.Err() == nil { // else Close says what is open
				s.log.Warn("runs of a partition that was given up are open for too long: another member takes them for interrupted", "partition", c.index, "open", s.open(c))
				s.stopSigning(c)
				last, done := context.WithTimeout(s.ctx, s.cfg.Session)
				_ = s.tellOf(last, c, true)
				done()
				s.left(c)
			}
			return
		}
		s.mu.Lock()
		c.sign++
		c.changes++
		s.mu.Unlock()
	}
}

// tellOf commits what is new of a claim that is being left. It does so past the
// client's own way of committing, which waits for as long as the group is being
// balanced anew.
func (s *Share) tellOf(ctx context.Context, c *claim, closing bool) error {
	news := s.news([]*claim{c}, closing)
	n, ok := news[c]
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Session)
	defer cancel()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = s.cfg.Group
	req.MemberID, req.Generation = s.client.GroupMetadata()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = c.index, n.offset, &n.note
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.Partitions = s.cfg.Topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	if err := answered(req.RequestWith(ctx, s.client)); err != nil {
		return fmt.Errorf("commit the position of group %s in partition %d: %w", s.cfg.Group, c.index, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.told = n.changes
	return nil
}

// versions are those that the client may speak: topics of positions are told by
// name, which later ones of these two requests do not do.
func versions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 9)
	v.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 9)
	return v
}

func (s *Share) open(c *claim) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.marks.Open()
}

// told tells whether the broker knows that nothing of a claim is open: what was
// completed while a commit was under way is not in it.
func (s *Share) told(c *claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.marks.Open() == 0 && c.account.told == c.changes
}

func (s *Share) stopSigning(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.sign = 0
	c.changes++
}

// left forgets a claim: nothing of it is told any more.
func (s *Share) left(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.gone = true
	delete(s.leaving, c)
	s.wake()
}

// followLater has nothing read of a partition that another member is still at,
// and looks for the end of that beside it. The caller holds the lock.
func (s *Share) followLater(c *claim) {
	ctx, cancel := context.WithCancel(s.ctx)
	c.follow = cancel
	s.client.PauseFetchPartitions(map[string][]int32{s.cfg.Topic: {c.index}})
	s.owned.Go(func() {
		defer cancel()
		s.followUp(ctx, c)
	})
}

// followUp waits until the other member has completed what it has, or is gone,
// and takes the partition over as it stands then.
func (s *Share) followUp(ctx context.Context, c *claim) {
	sign, same := c.awaits, 0 // times that the sign was found unchanged: while we stand still we see nothing of others
	s.log.Info("partition waits for what another member has of it", "partition", c.index)
	for outage.Wait(ctx, s.cfg.Session/looksInSession) {
		held, err := s.positions(ctx, s.client, []int32{c.index})
		if err != nil {
			same = 0 // who cannot ask does not know who lives
			continue
		}
		fresh := held[c.index]
		switch {
		case fresh.awaits == "":
		case fresh.awaits != sign:
			sign, same = fresh.awaits, 0
			continue
		case same < signEndsAfter*looksInSession:
			same++
			continue
		default:
			s.log.Warn("the member that had runs open of a partition is gone: they are treated as after a crash", "partition", c.index)
		}
		s.takeOver(c, fresh)
		return
	}
}

// takeOver has a partition read from where the other member left it.
func (s *Share) takeOver(c, fresh *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return
	}
	c.account, c.awaits = fresh.account, ""
	c.skip, c.next = span{c.next, fresh.next}, fresh.next
	c.changes++ // the sign is not to stay there
	signal(s.dirty)
	s.client.ResumeFetchPartitions(map[string][]int32{s.cfg.Topic: {c.index}})
	s.log.Info("partition is read", "partition", c.index)
}
