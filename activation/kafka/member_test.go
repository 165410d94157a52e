package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// session is how soon a member that was killed is noticed: the least that
// brokers take by default.
const session = 6 * time.Second

// member joins the group of a topic until the test ends.
func (b *fixture) member(topic string) *Member {
	b.t.Helper()
	return b.memberThatCommits(topic, 5*time.Millisecond)
}

func (b *fixture) memberThatCommits(topic string, every time.Duration) *Member {
	b.t.Helper()
	s, err := b.cluster().NewMember(MemberConfig{Topic: topic, Session: session, CommitEvery: every})
	b.must(err)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		s.Close(ctx)
	})
	return s
}

// took is what the members of a test were handed.
type took struct {
	mu      sync.Mutex
	times   map[int]int
	members map[string]map[int]bool // by key, those that had it
}

func newTook() *took {
	return &took{times: map[int]int{}, members: map[string]map[int]bool{}}
}

// consume has a member take and complete all that comes, until the test ends.
func (b *fixture) consume(s *Member, name int, all *took) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			d, err := s.Next(ctx)
			if err != nil {
				return
			}
			all.mu.Lock()
			all.times[number(d)]++
			key := flowOf(number(d))
			if all.members[key] == nil {
				all.members[key] = map[int]bool{}
			}
			all.members[key][name] = true
			all.mu.Unlock()
			d.Begin()
			d.Done()
		}
	})
	b.t.Cleanup(func() { cancel(); running.Wait() })
}

func (t *took) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.times)
}

// came reports whether a message was taken.
func (t *took) came(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.times[n] > 0
}

// flowOf is the key that the tests give to a message.
func flowOf(n int) string { return fmt.Sprintf("guest/function%d", n%17) }

// Messages go to the partition that the Java client chooses for their key, in
// order.
func TestKeyChoosesThePartition(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.wideTopic(5)
		p := b.producer()
		for n := range 200 {
			b.must(p.SendKeyed(b.ctx(), topic, flowOf(n), []byte(message(n)), nil))
		}
		b.must(p.Close(b.ctx()))
		cl := b.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer cl.Close()
		home := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
		last := map[string]int64{}
		for range 200 {
			for _, r := range cl.PollRecords(b.ctx(), 1).Records() {
				check.Equal(check.Must(b.t), int(r.Partition), home.Partition(r, 5), "key %s is in partition %d", r.Key, r.Partition)
				check.AtLeast(check.Must(b.t), r.Offset, last[string(r.Key)], "key %s went back", r.Key)
				last[string(r.Key)] = r.Offset
			}
		}
		check.Equal(b.t, len(last), 17)
	})
}

// Members share the partitions, each message goes to one of them, all of one
// key to the same.
func TestMembersDivideTheTopic(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.wideTopic(6)
		all := newTook()
		var members []*Member
		for n := range 3 {
			s := b.member(topic)
			b.consume(s, n, all)
			members = append(members, s)
		}
		b.await("each member to have two partitions", func() bool {
			return !slices.ContainsFunc(members, func(s *Member) bool { return len(s.Stats().Partitions) != 2 })
		})
		p := b.producer()
		const many = 300
		for n := range many {
			b.must(p.SendKeyed(b.ctx(), topic, flowOf(n), []byte(message(n)), nil))
		}
		b.await("all messages", func() bool { return all.count() == many })
		all.mu.Lock()
		defer all.mu.Unlock()
		if b.log.count("went to others") > 0 {
			return // this machine stood still for longer than a session
		}
		for n, times := range all.times {
			check.Equal(b.t, times, 1, "message %d came", n)
		}
		for key, had := range all.members {
			check.Equal(b.t, len(had), 1, "%s ran at %v", key, slices.Sorted(maps.Keys(had)))
		}
	})
}

// Of three members one is killed. What it had completed does not run again,
// what it had not goes to the others, and nothing is lost.
func TestMemberOutlivesAnother(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.wideTopic(6)
		all := newTook()
		one, two := b.member(topic), b.member(topic)
		b.consume(one, 1, all)
		b.consume(two, 2, all)
		child, out := b.childMember(topic)
		b.await("two partitions for each", func() bool {
			return len(one.Stats().Partitions) == 2 && len(two.Stats().Partitions) == 2
		})
		const many = 60
		for n := range many {
			b.putTo(topic, int32(n%6), message(n))
		}
		done := childDone(b, out)
		b.must(child.Process.Kill())
		b.await("everything that the killed one had not completed", func() bool { return all.count() >= many-len(done) })
		all.mu.Lock()
		defer all.mu.Unlock()
		for n := range many {
			if !done[n] && all.times[n] == 0 {
				b.t.Errorf("message %d is lost", n)
			}
			if done[n] && all.times[n] > 0 {
				b.t.Errorf("message %d had been completed and ran again", n)
			}
		}
	})
}

const childTakes, childCompletes = 10, 5

// beMembers is the child of tests (childMember): it takes some messages,
// completes a part, reports that, and waits for its end.
func beMembers(topic, broker string) {
	c, err := New(Options{Brokers: []string{broker}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	s, err := c.NewMember(MemberConfig{Topic: topic, Session: session})
	if err != nil {
		panic(err)
	}
	for n := range childTakes {
		d, err := s.Next(context.Background())
		if err != nil {
			panic(err)
		}
		d.Begin()
		if n%2 == 0 {
			d.Done()
			fmt.Println("done", number(d))
		}
	}
	for tick := time.Tick(time.Millisecond); len(s.feed.uncommitted()) > 0; {
		<-tick
	}
	fmt.Println("committed")
	select {}
}

func TestMemberNamesWhatIsWrong(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.wideTopic(1)
	s := b.member(topic)
	b.putTo(topic, 0, "{", message(1))
	d, err := s.Next(b.ctx())
	check.NoError(t, err)
	check.Equal(check.Must(t), number(d), 1)
	d.Done()
	got := s.Stats()
	check.Equal(t, got.Undecodable, 1, "stats %+v\n%s", got, b.log)
	check.Equal(t, got.Delivered, 1, "stats %+v\n%s", got, b.log)
	check.Equal(t, b.log.count("ERROR", "cannot be decoded"), 1, "stats %+v\n%s", got, b.log)
	check.NoError(t, s.Close(b.ctx()))
	_, err = s.Next(b.ctx())
	check.ErrorContains(t, err, "closed", "Next of a closed member")
	again := b.member(topic)
	b.putTo(topic, 0, message(2))
	d, err = again.Next(b.ctx())
	check.NoError(t, err)
	check.Equal(t, number(d), 2)
}

// A member whose reading was interrupted is well again when the broker is, though
// nothing is sent for hours.
func TestMemberIsWellAgainWithoutAnotherMessage(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.wideTopic(1)
	s := b.member(topic)
	all := newTook()
	b.consume(s, 1, all)
	b.putTo(topic, 0, messages(0, 1)...)
	b.await("the first message", func() bool { return all.count() == 1 })
	var refuses atomic.Bool
	refuses.Store(true)
	b.fake.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		if !refuses.Load() {
			return nil, nil, false
		}
		asked := req.(*kmsg.FetchRequest)
		answer := asked.ResponseKind().(*kmsg.FetchResponse)
		for _, of := range asked.Topics {
			t := kmsg.NewFetchResponseTopic()
			t.Topic, t.TopicID = of.Topic, of.TopicID
			for _, p := range of.Partitions {
				refused := kmsg.NewFetchResponseTopicPartition()
				refused.Partition, refused.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				t.Partitions = append(t.Partitions, refused)
			}
			answer.Topics = append(answer.Topics, t)
		}
		return answer, nil, true
	})
	b.await("the refusal", func() bool { return s.Stats().Interrupted != "" })
	refuses.Store(false)
	b.await("the end of the refusal", func() bool { return s.Stats().Interrupted == "" })
	b.putTo(topic, 0, messages(1, 2)...)
	b.await("the second message", func() bool { return all.count() == 2 })
}
