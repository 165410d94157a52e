package kafka

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// narrowed is a feed without a broker, of one partition of which more is open
// than a commit can name.
func narrowed(t *testing.T, member *Member) (*Feed, *partition) {
	f := &Feed{
		log: slog.New(slog.DiscardHandler), metadataChars: 1, changed: make(chan struct{}, 1), ctx: t.Context(), member: member,
	}
	f.commits = &committer{feed: f, dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1)}
	if member != nil {
		f.metadataChars += heartbeatChars
		member.feed, member.log = f, f.log
	}
	ctx, stop := context.WithCancel(t.Context())
	p := &partition{feed: f, ctx: ctx, stop: stop, want: make(chan struct{}, 1), reader: &partitionReader{}}
	p.startAt(0, true, offsetMetadata{})
	for offset := range int64(100) {
		p.progress.deliver(record{offset: offset})
	}
	f.partitions = append(f.partitions, p)
	return f, p
}

// A member that reads nothing until more is completed reads on when the partition
// of which that was to come is its own no more: nothing completes it any more.
func TestNarrowedMemberReadsOnWhenItsPartitionIsGone(t *testing.T) {
	for name, gone := range map[string]func(m *Member){
		"lost": func(m *Member) { m.forget([]int32{0}) },
		"left for too long": func(m *Member) {
			m.release([]int32{0})
			m.beat(time.Now().Add(time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &Member{cfg: MemberConfig{Topic: "t", Session: time.Second, HandOver: time.Minute}}
				f, p := narrowed(t, m)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _, _ = f.Next(ctx) }()
				synctest.Wait()
				check.That(check.Must(t), f.stats.Narrowed, "reads on though a commit does not say it all")
				gone(m)
				p.finish(p.open[0]) // which is no news
				synctest.Wait()
				check.That(t, !f.stats.Narrowed, "waits for what nothing completes")
				check.AtMost(t, len(f.partitions), 0)
			})
		})
	}
}

// A feed that reads nothing until more is completed reads on when the log was
// truncated below what is open: nothing completes that any more.
func TestNarrowedFeedReadsOnWhenTheLogIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := narrowed(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = f.Next(ctx) }()
		synctest.Wait()
		check.That(check.Must(t), !p.asked, "reads on though a commit does not say it all")
		check.That(check.Must(t), f.stats.Narrowed, "does not say that a commit does not say it all")
		p.cutAt(0)
		synctest.Wait()
		check.That(t, p.asked, "waits for what nothing completes")
	})
}
