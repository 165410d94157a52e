package kafka

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// narrowed is a feed without a broker, of one partition of which more is open
// than a commit can name.
func narrowed(t *testing.T) (*Feed, *partition) {
	f := &Feed{
		log: slog.New(slog.DiscardHandler), metadataChars: 1, changed: make(chan struct{}, 1), ctx: t.Context(),
	}
	f.commits = &committer{feed: f, dirty: make(chan struct{}, 1)}
	p := &partition{feed: f, ctx: t.Context(), want: make(chan struct{}, 1), reader: &partitionReader{}}
	p.startAt(0, true, offsetMetadata{})
	for offset := range int64(100) {
		p.progress.deliver(record{offset: offset})
	}
	f.partitions = append(f.partitions, p)
	return f, p
}

// A narrowed feed reads nothing until an activation completes. If the log is truncated below
// the open activations, none of them completes any more, and the feed must read on.
func TestNarrowedFeedReadsOnWhenTheLogIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := narrowed(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = f.Next(ctx) }()
		synctest.Wait()
		check.That(check.Must(t), !p.asked, "reads on though a commit does not say it all")
		check.That(check.Must(t), f.stats.ReadPaused, "does not say that a commit does not say it all")
		p.cutAt(0)
		synctest.Wait()
		check.That(t, p.asked, "waits for activations that nothing completes")
	})
}
