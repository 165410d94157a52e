package kafka

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// A member that reads nothing until more is completed reads on when the partition
// of which that was to come is its own no more: nothing completes it any more.
func TestNarrowedMemberReadsOnWhenItsPartitionIsGone(t *testing.T) {
	for name, gone := range map[string]func(s *Member, c *assignment){
		"lost": func(s *Member, _ *assignment) { s.forget([]int32{0}) },
		"left for too long": func(s *Member, c *assignment) {
			s.release([]int32{0})
			s.drop(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Member{
					cfg: MemberConfig{Topic: "t"}, log: slog.New(slog.DiscardHandler), dirty: make(chan struct{}, 1),
					assignments: map[int32]*assignment{}, released: map[*assignment]struct{}{}, settled: make(chan struct{}),
					metadataChars: heartbeatChars + 1, reading: retry.New(slog.New(slog.DiscardHandler), "reading"),
				}
				c := &assignment{member: s}
				c.open(0, offsetMetadata{})
				for offset := range int64(100) {
					c.progress.deliver(record{offset: offset})
				}
				s.assignments[0] = c
				hasCapacity := false
				go func() {
					s.awaitCapacity(t.Context())
					hasCapacity = true
				}()
				synctest.Wait()
				if hasCapacity || !s.stats.Narrowed {
					t.Fatal("reads on though a position does not say it all")
				}
				gone(s, c)
				c.finish(0, 0) // which is no news
				synctest.Wait()
				if !hasCapacity {
					t.Error("waits for what nothing completes")
				}
			})
		})
	}
}

// A feed that reads nothing until more is completed reads on when the log was
// truncated below what is open: nothing completes that any more.
func TestNarrowedFeedReadsOnWhenTheLogIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Feed{
			cfg: FeedConfig{CommitAfter: 1000}, log: slog.New(slog.DiscardHandler), metadataChars: 1,
			came: make(chan fetched), settled: make(chan struct{}, 1), ctx: t.Context(),
		}
		f.commits = &committer{feed: f, dirty: make(chan struct{}, 1), full: make(chan struct{}, 1)}
		p := &partition{feed: f, want: make(chan struct{}, 1), reader: &partitionReader{}}
		p.startAt(0, true, offsetMetadata{})
		for offset := range int64(100) {
			p.progress.deliver(record{offset: offset})
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
			t.Error("waits for what nothing completes")
		}
	})
}
