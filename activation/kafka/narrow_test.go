package kafka

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// A share that reads nothing until more is completed reads on when the partition
// of which that was to come is its own no more: nobody completes it any more.
func TestNarrowedShareReadsOnWhenItsPartitionIsGone(t *testing.T) {
	for name, gone := range map[string]func(s *Share, c *claim){
		"lost": func(s *Share, _ *claim) { s.forget([]int32{0}) },
		"left for too long": func(s *Share, c *claim) {
			s.leave([]int32{0})
			s.left(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Share{
					cfg: ShareConfig{Topic: "t"}, log: slog.New(slog.DiscardHandler), dirty: make(chan struct{}, 1),
					claims: map[int32]*claim{}, leaving: map[*claim]struct{}{}, settled: make(chan struct{}),
					noteChars: signRoom + 1, reading: outage.New(slog.New(slog.DiscardHandler), "reading"),
				}
				c := &claim{share: s}
				c.open(0, note{})
				for offset := range int64(100) {
					c.hand(record{offset: offset})
				}
				s.claims[0] = c
				roomy := false
				go func() {
					s.untilRoomy(t.Context())
					roomy = true
				}()
				synctest.Wait()
				if roomy || !s.stats.Narrowed {
					t.Fatal("reads on though a position does not say it all")
				}
				gone(s, c)
				c.finish(0, 0) // which is no news
				synctest.Wait()
				if !roomy {
					t.Error("waits for what nobody completes")
				}
			})
		})
	}
}

// A feed that reads nothing until more is completed reads on when the log was
// truncated below what is open: nobody completes that any more.
func TestNarrowedFeedReadsOnWhenTheLogIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Feed{
			cfg: FeedConfig{CommitAfter: 1000}, log: slog.New(slog.DiscardHandler), noteChars: 1,
			came: make(chan fetched), settled: make(chan struct{}, 1), ctx: t.Context(),
		}
		f.commits.dirty, f.commits.full = make(chan struct{}, 1), make(chan struct{}, 1)
		p := &partition{feed: f, want: make(chan struct{}, 1), tail: &tail{}}
		p.begins(0, true, note{})
		for offset := range int64(100) {
			p.hand(record{offset: offset})
		}
		f.partitions = append(f.partitions, p)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = f.Next(ctx) }()
		synctest.Wait()
		if p.asked || !f.stats.Narrowed {
			t.Fatal("reads on though a position does not say it all")
		}
		p.cutAt(0)
		synctest.Wait()
		if !p.asked {
			t.Error("waits for what nobody completes")
		}
	})
}
