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

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// assigned takes partitions over, with what is committed beside their
// positions. The client reads nothing of them before it returns.
func (s *Share) assigned(ctx context.Context, client *kgo.Client, all map[string][]int32) {
	partitions := all[s.cfg.Topic]
	if len(partitions) == 0 {
		return
	}
	var held map[int32]*claim
	for {
		var err error
		if held, err = s.positions(ctx, client, partitions); err == nil {
			s.taking.Over()
			break
		}
		if !s.taking.Failed(ctx, err) {
			return
		}
	}
	s.mu.Lock()
	for i, c := range held {
		s.claims[i] = c
		if c.awaits != "" {
			s.followLater(c)
		} else {
			s.client.ResumeFetchPartitions(map[string][]int32{s.cfg.Topic: {i}})
		}
	}
	s.mu.Unlock()
	s.log.Info("partitions taken", "partitions", partitions)
}

// positions reads where to begin in partitions.
func (s *Share) positions(ctx context.Context, client *kgo.Client, partitions []int32) (map[int32]*claim, error) {
	held := map[int32]*claim{}
	for _, i := range partitions {
		held[i] = &claim{share: s, index: i, account: account{tried: map[int64]try{}}}
	}
	res, err := s.request(partitions).RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("read the positions of group %s: %w", s.cfg.Group, err)
	}
	for _, g := range res.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return nil, fmt.Errorf("read the positions of group %s: %w", s.cfg.Group, err)
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("read the position of group %s in partition %d: %w", s.cfg.Group, p.Partition, err)
				}
				if c := held[p.Partition]; c != nil && p.Offset >= 0 {
					c.resume(p.Offset, p.Metadata)
				}
			}
		}
	}
	return held, nil
}

// request asks for the positions as old and as new brokers want to be asked;
// the client sends and answers what fits.
func (s *Share) request(partitions []int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = s.cfg.Group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = s.cfg.Topic, partitions
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	return req
}

func (c *claim) resume(offset int64, text *string) {
	var n note
	if text != nil {
		words, sign, _ := strings.Cut(*text, signMark)
		c.awaits = sign
		var err error
		if n, err = decodeNote(words, offset); err != nil {
			c.share.log.Warn("what is committed beside the position cannot be used: activations behind the position run again though some may have ended",
				"partition", c.index, "offset", offset, "bytes", len(*text), "error", err)
		}
	}
	c.open(offset, n)
	c.next = offset
}

// revoked gives partitions up. Of what was taken from them and is not completed
// a sign stands beside the position, so that who has the partition next does not
// run it a second time; nobody else has to wait for that.
func (s *Share) revoked(ctx context.Context, _ *kgo.Client, all map[string][]int32) {
	partitions := all[s.cfg.Topic]
	if len(partitions) == 0 {
		return
	}
	limit, cancel := context.WithTimeout(ctx, s.cfg.Session)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	leaving := s.leave(partitions)
	if s.ctx.Err() == nil { // else Close has committed
		pace := outage.Pace{Min: outage.MinPause, Max: outage.MaxPause}
		for s.commit(limit, func() []*claim { return append(s.held(partitions), leaving...) }, true) != nil && outage.Wait(limit, pace.Next()) {
		}
	}
	s.forget(partitions)
	for _, c := range leaving {
		s.owned.Go(func() { s.finishLeaving(c) })
	}
	s.log.Info("partitions given up", "partitions", partitions, "withRunsOpen", len(leaving))
}

// lost hears that partitions went to others without a word: we were silent for
// too long. What is open runs there, too.
func (s *Share) lost(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	if partitions := all[s.cfg.Topic]; len(partitions) > 0 {
		s.forget(partitions)
		s.log.Error("partitions went to others while nothing was heard of us: what was running may run there, too",
			"partitions", partitions)
	}
}

func (s *Share) forget(partitions []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range partitions {
		if c := s.claims[i]; c != nil {
			c.gone = true
			if c.follow != nil {
				c.follow()
			}
			delete(s.claims, i)
		}
	}
	s.wake()
}

// held lists the claims on partitions, on all when nil.
func (s *Share) held(partitions []int32) (all []*claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.claims {
		if partitions == nil || slices.Contains(partitions, i) {
			all = append(all, c)
		}
	}
	if partitions == nil {
		for c := range s.leaving {
			all = append(all, c)
		}
	}
	return all
}

// commitAll commits at once after a rest and then at intervals, until Close.
func (s *Share) commitAll() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.dirty:
		}
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(s.cfg.CommitEvery)
		for {
			err := s.commit(s.ctx, s.keeping, false)
			if err == nil {
				s.committing.Over()
				break
			}
			if !s.committing.Failed(s.ctx, err) {
				return
			}
		}
	}
}

// commit tells the broker what is new of claims. The client has a commit wait while
// the group is being balanced anew: what is told is what is so when it goes out, or
// an older commit could take back what a newer one has told.
func (s *Share) commit(ctx context.Context, which func() []*claim, closing bool) error {
	news := s.news(which(), closing)
	if len(news) == 0 {
		return nil
	}
	offsets := map[int32]kgo.EpochOffset{}
	for c, n := range news {
		offsets[c.index] = kgo.EpochOffset{Epoch: -1, Offset: n.offset}
	}
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		news = s.renew(req, which(), closing)
		return nil
	})
	var failure error
	s.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{s.cfg.Topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, res *kmsg.OffsetCommitResponse, err error) {
			failure = answered(res, err)
		})
	if errors.Is(failure, kerr.OffsetMetadataTooLarge) && s.shorten() {
		return s.commit(ctx, which, closing)
	}
	if failure != nil {
		return fmt.Errorf("commit the positions of group %s: %w", s.cfg.Group, failure)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, n := range news {
		c.told = n.changes
	}
	return nil
}

// renew puts into a commit what is so now of the partitions in it, and gives that.
// One of which there is nothing to tell any more is taken out.
func (s *Share) renew(req *kmsg.OffsetCommitRequest, all []*claim, closing bool) map[*claim]standing {
	byIndex := map[int32]*claim{}
	news, sent := s.news(all, closing), map[*claim]standing{}
	for c := range news {
		byIndex[c.index] = c
	}
	for i := range req.Topics {
		var still []kmsg.OffsetCommitRequestTopicPartition
		for _, p := range req.Topics[i].Partitions {
			if c := byIndex[p.Partition]; c != nil {
				n := news[c]
				p.Offset, p.Metadata, sent[c] = n.offset, &n.note, n
				still = append(still, p)
			}
		}
		req.Topics[i].Partitions = still
	}
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return len(t.Partitions) == 0 })
	return sent
}

// shorten makes do with half of what the broker was thought to take beside a
// position. It tells whether there is anything left to leave out.
func (s *Share) shorten() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noteChars == 0 {
		return false
	}
	s.noteChars = shorter(s.noteChars, s.log, s.cfg.Group)
	return true
}

func answered(res *kmsg.OffsetCommitResponse, err error) error {
	if err != nil || res == nil {
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

// news is what the broker should know and does not.
func (s *Share) news(all []*claim, closing bool) map[*claim]standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := map[*claim]standing{}
	for _, c := range all {
		if c.gone || c.awaits != "" {
			continue
		}
		if closing && c.running() {
			c.changes++
		}
		sign := c.shownSign()
		if n, ok := c.unsaved(closing, max(0, s.noteChars-len(sign))); ok {
			n.note += sign
			news[c] = n
		}
	}
	return news
}
