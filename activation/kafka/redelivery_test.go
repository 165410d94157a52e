package kafka

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// kill ends a feed as a crash does: without a last commit.
func (b *fixture) kill(f *Feed) {
	b.t.Helper()
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.cancel()
	f.owned.Wait()
	f.commits.cut()
	f.commits.client.close()
}

// saved waits until the broker knows all that is completed and begun.
func (b *fixture) saved(f *Feed) {
	b.t.Helper()
	b.await("everything to be committed", func() bool { return len(f.uncommitted()) == 0 })
}

// begin commits the marks of an activation that begins to run, as package delivery makes them:
// a bit for the start, and above it the number of killed processes.
func (b *fixture) begin(d Delivery) {
	b.t.Helper()
	b.must(d.Commit(b.ctx(), (d.Mark|1)+2, d.Mark|1))
}

// nothing checks that the next delivery is a message that is sent now.
func (b *fixture) nothing(f *Feed, topic string, next int) Delivery {
	b.t.Helper()
	b.put(topic, message(next))
	return b.next(f, next)
}

// One activation is open and all later ones are completed. However the process ends, the next
// process runs the open one again and nothing else.
func TestNothingThatEndedIsDeliveredAgain(t *testing.T) {
	for _, end := range []string{"close", "kill"} {
		t.Run(end, func(t *testing.T) {
			onEachBroker(t, func(b *fixture) {
				const many = 3000
				topic := b.topicOf(messages(0, many)...)
				f := b.feed(topic)
				for n := range many {
					if d := b.next(f, n); n != 1 {
						d.Done()
					}
				}
				if end == "close" {
					b.must(f.Close(b.ctx()))
				} else {
					b.saved(f)
					b.kill(f)
				}
				b.position(topic, 1)
				f = b.feed(topic)
				open := b.next(f, 1)
				b.nothing(f, topic, many).Done()
				s := f.Stats()
				check.Equal(b.t, s.SkippedCompleted, many-2)
				check.Equal(b.t, s.Delivered, 2)
				open.Done()
				b.must(f.Close(b.ctx()))
				b.position(topic, many+1)
			})
		})
	}
}

// Completions of an earlier process stay known while the present process has not reached their
// offsets.
func TestFinishedIsKnownOverSeveralStarts(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topicOf(messages(0, 200)...)
	f := b.feed(topic)
	for n := range 200 {
		if d := b.next(f, n); n%50 > 0 {
			d.Done()
		}
	}
	for range 3 {
		b.must(f.Close(b.ctx()))
		f = b.feed(topic)
		b.begin(b.next(f, 0))
	}
	b.next(f, 50).Done()
	b.saved(f)
	b.kill(f)
	f = b.feed(topic)
	for _, n := range []int{0, 100, 150} {
		b.next(f, n).Done()
	}
	b.nothing(f, topic, 200)
}

// rareCommits is a feed that has made the one commit that is due at once, by which the
// first message is completed; the next is due an hour later. The second is open.
func (b *fixture) rareCommits() (f *Feed, topic string, second Delivery) {
	b.t.Helper()
	topic = b.topicOf(messages(0, 2)...)
	f = b.cluster().NewFeed(FeedConfig{Topic: topic, CommitEvery: time.Hour})
	first, second := b.next(f, 0), b.next(f, 1)
	first.Done()
	b.saved(f)
	return f, topic, second
}

// After Commit has returned, the next process knows the start, however rarely commits are due.
func TestKeptStartIsKnownAfterAKill(t *testing.T) {
	b := newFakeFixture(t)
	f, topic, second := b.rareCommits()
	b.begin(second)
	b.kill(f)
	check.Equal(t, b.next(b.feed(topic), 1).Mark, 3, "begun, and killed once")
}

// While a group rebalances its broker refuses commits for a moment.
func TestKeepTriesAgain(t *testing.T) {
	b := newFakeFixture(t)
	f, topic, second := b.rareCommits()
	refused := 0
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		if refused++; refused > 3 {
			return nil, nil, false
		}
		return refuseCommit(req, kerr.RebalanceInProgress.Code), nil, true
	})
	b.begin(second)
	check.Equal(t, b.next(b.feed(topic), 1).Mark, 3, "the start is not known")
	b.must(f.Close(b.ctx()))
}

// A broker that answers no commit delays a run for no longer than Commit may take.
func TestKeepDoesNotWaitForAnotherCommit(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topicOf(messages(0, 2)...)
	f := b.feed(topic)
	came, release := make(chan struct{}, 1), make(chan struct{})
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		signal(came)
		b.fake.SleepControl(func() { <-release })
		return nil, nil, false
	})
	b.next(f, 0).Done()
	check.Receive(t, came) // the completion is being committed
	d := b.next(f, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	kept := make(chan struct{})
	go func() {
		_ = d.Commit(ctx, 3, 1)
		close(kept)
	}()
	select {
	case <-kept:
	case <-time.After(5 * time.Second):
		t.Error("Commit waits for a commit that is not answered")
	}
	close(release)
	b.must(f.Close(b.ctx()))
}

// Random histories over many starts: a committed completion is never delivered again, and an
// open activation is delivered in the next life.
func TestHistoriesOfStartsAndEnds(t *testing.T) {
	for seed := range uint64(8) {
		b := newFakeFixture(t)
		topic := b.topic()
		r := rand.New(rand.NewPCG(seed, 11))
		total, finished := 0, map[int]bool{}
		for range 12 {
			more := r.IntN(60)
			b.put(topic, messages(total, total+more)...)
			total += more
			f := b.feed(topic)
			last, open := -1, []Delivery{}
			for n := range total {
				if finished[n] {
					continue
				}
				d := b.next(f, n)
				last = n
				if r.IntN(4) == 0 {
					b.begin(d)
				}
				open = append(open, d)
				if r.IntN(total) == 0 {
					break // the rest is not read in this life
				}
			}
			r.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
			for _, d := range open[:len(open)*r.IntN(5)/5] {
				finished[number(d)] = true
				d.Done()
			}
			if r.IntN(2) == 0 {
				b.must(f.Close(b.ctx()))
			} else {
				b.saved(f)
				b.kill(f)
			}
			check.That(check.Must(t), !t.Failed(), "seed %d, last read %d", seed, last)
		}
	}
}

// The feed counts how often a process ended while an activation ran. A clean stop does not
// count, and neither does an activation that only waited.
func TestAttemptsAreCounted(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topicOf(messages(0, 3)...)
		want := func(d Delivery, attempts int, begun bool) {
			b.t.Helper()
			check.Equal(check.Must(b.t), int(d.Mark>>1), attempts, "message %d", number(d))
			check.Equal(check.Must(b.t), d.Mark&1 == 1, begun, "message %d", number(d))
		}
		for life := range 4 {
			f := b.feed(topic)
			for n := range 3 {
				d := b.next(f, n)
				if n == 1 {
					want(d, life, life > 0)
					b.begin(d)
					b.begin(d)
				} else {
					want(d, 0, false)
				}
			}
			b.saved(f)
			b.kill(f)
		}
		for range 2 { // these are stops
			f := b.feed(topic)
			b.next(f, 0).Done()
			d := b.next(f, 1)
			want(d, 4, true)
			b.begin(d)
			waiting := b.next(f, 2)
			want(waiting, 0, false)
			b.must(f.Close(b.ctx()))
			b.commit(topic, topic, 0, rewrite(b, topic))
		}
		f := b.feed(topic)
		b.next(f, 0)
		b.next(f, 1).Done()
		b.saved(f)
		b.kill(f)
		f = b.feed(topic)
		b.next(f, 0)
		want(b.next(f, 2), 0, false)
	})
}

// rewrite is the metadata of a topic as it would stand beside position 0.
func rewrite(b *fixture, topic string) string {
	b.t.Helper()
	offset, text := b.committedMetadata(topic, topic)
	n, err := decodeOffsetMetadata(text, offset)
	b.must(err)
	text, _ = n.encode(0, metadataChars)
	return text
}

// That an activation begins again, which may end the process at once, is committed
// without waiting for the interval between commits.
func TestSecondAttemptIsCommittedAtOnce(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topicOf(messages(0, 3)...)
	n := offsetMetadata{marked: []openOffset{{offset: 1, mark: 3}}}
	text, _ := n.encode(0, metadataChars)
	b.commit(topic, topic, 0, text)
	f := b.cluster().NewFeed(FeedConfig{Topic: topic, CommitEvery: time.Hour})
	defer f.Close(b.ctx())
	b.next(f, 0).Done()
	b.await("the first commit", func() bool { return b.committed(topic, topic) == 1 })
	again := b.next(f, 1)
	b.begin(again)
	b.await("the second attempt to be committed", func() bool {
		offset, text := b.committedMetadata(topic, topic)
		n, err := decodeOffsetMetadata(text, offset)
		return err == nil && len(n.marked) == 1 && n.marked[0].mark == 5
	})
}

// Metadata written by other programs is ignored. The log reports it without its content.
func TestFeedReadsAForeignPositionAsPlain(t *testing.T) {
	position, n := sample(rand.New(rand.NewPCG(2, 12)), 5)
	ours, _ := n.encode(position, metadataChars)
	for name, c := range map[string]struct {
		text string
		word string
	}{
		"none":    {"", ""},
		"foreign": {"host-1.example", "not written by this program"},
		"damaged": {ours, "not written by this program"}, // of another position
		"newer":   {renumber(ours, 2, metadataVersion+1), "another version"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeFixture(t)
			topic := b.topicOf(messages(0, 5)...)
			b.commit(topic, topic, 2, c.text)
			f := b.feed(topic)
			done(b.nexts(f, 2, 5))
			want := 1
			if c.word == "" {
				want = 0
			}
			got := b.log.count("WARN", "cannot be used", c.word)
			check.Equal(t, got, want, "%d lines about it, want %d:\n%s", got, want, b.log)
			if c.text != "" && b.log.count(c.text) > 0 {
				t.Error("the metadata is in the log")
			}
		})
	}
}

// While the broker's limit for metadata is too small to name all open activations, nothing
// more is read.
func TestFeedNarrowsToWhatTheBrokerTakes(t *testing.T) {
	b := newFakeFixture(t)
	const limit, many = 128, 2000
	topic := b.topicOf(messages(0, many)...)
	f := b.feed(topic)
	var left []Delivery
	finished := map[int]bool{}
	f.mu.Lock()
	f.metadataChars = limit
	f.mu.Unlock()
	for n := range many {
		f.mu.Lock()
		full := f.narrowed()
		f.mu.Unlock()
		if full {
			ctx, cancel := context.WithCancel(b.ctx())
			next := make(chan error, 1)
			go func() {
				_, err := f.Next(ctx)
				next <- err
			}()
			b.await("the feed to report that it waits", func() bool { return f.Stats().ReadPaused })
			cancel()
			check.ErrorIs(check.Must(b.t), <-next, context.Canceled, "message %d came though the metadata is full", n)
			break
		}
		d := b.next(f, n)
		b.begin(d)
		if n%3 == 0 {
			left = append(left, d)
			continue
		}
		finished[n] = true
		d.Done()
	}
	check.That(check.Must(b.t), len(left) != many/3, "everything was read at once")
	b.saved(f)
	_, text := b.committedMetadata(f.cfg.Group, topic)
	check.AtMost(b.t, len(text), limit, "%d characters, log:\n%s", len(text), b.log)
	check.That(b.t, text != "", "%d characters, log:\n%s", len(text), b.log)
	check.AtMost(b.t, b.log.count("WARN"), 0, "%d characters, log:\n%s", len(text), b.log)
	b.kill(f)
	f = b.feed(topic)
	f.mu.Lock()
	f.metadataChars = limit
	f.mu.Unlock()
	again := map[int]bool{}
	for n := range many { // each completion frees metadata
		if finished[n] {
			continue
		}
		d := b.next(f, n)
		again[n] = true
		d.Done()
	}
	for _, d := range left {
		check.That(b.t, again[number(d)], "message %d was open and did not come again", number(d))
	}
}

// A feed whose caller has a journal reads on even if the metadata cannot name all completions.
// The next feed hands out every message that was open.
func TestJournaledFeedReadsOn(t *testing.T) {
	b := newFakeFixture(t)
	const many = 6000
	topic := b.topicOf(messages(0, many)...)
	open := func() *Feed { return b.feedOf(FeedConfig{Topic: topic, Journaled: true}) }
	f := open()
	for n := range many {
		if d := b.next(f, n); n%2 == 1 {
			d.Done()
		}
	}
	b.saved(f)
	_, text := b.committedMetadata(f.cfg.Group, topic)
	check.AtMost(t, len(text), metadataChars)
	check.AtLeast(t, len(text), metadataChars-8)
	b.kill(f)
	f = open()
	came := map[int]bool{}
	for !came[many-2] {
		d, err := f.Next(b.ctx())
		check.NoError(t, err)
		came[number(d)] = true
	}
	for n := 0; n < many; n += 2 {
		check.That(check.Must(t), came[n], "message %d was open and did not come again", n)
	}
	check.AtLeast(t, f.Stats().SkippedCompleted, 1000, "messages that the metadata names")
}

// A broker with a smaller limit gets shorter metadata. A broker that accepts no metadata still
// gets the position.
func TestFeedGoesOnWithoutMetadata(t *testing.T) {
	b := newFakeFixture(t)
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		if m := req.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Metadata; m != nil && *m != "" {
			return refuseCommit(req, kerr.OffsetMetadataTooLarge.Code), nil, true
		}
		return nil, nil, false
	})
	topic := b.topicOf(messages(0, 3)...)
	f := b.feed(topic)
	done(b.nexts(f, 0, 3))
	b.await("position 3", func() bool { return b.committed(f.cfg.Group, topic) == 3 })
	check.That(b.t, b.log.count("WARN", "offset.metadata.max.bytes") != 0, "no line about the limit:\n%s", b.log)
}
