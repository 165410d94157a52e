package kafka

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// A member that gives up a partition completes what it has of it, before the
// next one reads there: nothing runs at both.
func TestMemberReleasesWhatItHasWhenThatIsCompleted(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.wideTopic(2)
		first := b.member(topic)
		b.putTo(topic, 0, message(0))
		b.putTo(topic, 1, message(1))
		open := b.takeOpen(first, 2)
		all := newTook()
		second := b.member(topic)
		b.consume(second, 2, all)
		b.consume(first, 1, all)
		b.await("the second to have a partition that it does not read yet", func() bool {
			st := second.Stats()
			return len(st.Partitions) == 1 && st.Following == 1 && first.Stats().Leaving
		})
		b.putTo(topic, 0, message(2))
		b.putTo(topic, 1, message(3))
		b.await("what came for the partition that the first still has", func() bool { return all.count() == 1 })
		done(open)
		b.await("the other new message", func() bool { return all.count() == 2 })
		b.await("nothing to be open, or left", func() bool {
			f, s := first.Stats(), second.Stats()
			return !f.Leaving && f.Open+s.Open+s.Following == 0
		})
		all.mu.Lock()
		defer all.mu.Unlock()
		if b.log.count("went to others") > 0 {
			return // this machine stood still for longer than a session
		}
		check.AtMost(b.t, all.times[0]+all.times[1], 0, "what came after the first had taken 0 and 1")
		check.Equal(b.t, all.times[2], 1, "what came after the first had taken 0 and 1")
		check.Equal(b.t, all.times[3], 1, "what came after the first had taken 0 and 1")
	})
}

// What is completed while a heartbeat is on its way to the broker is committed after
// it: the next member neither waits for more signs nor runs it again.
func TestMemberCommitsWhatIsCompletedDuringAHeartbeat(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.wideTopic(2)
	first := b.member(topic)
	b.putTo(topic, 0, message(0))
	b.putTo(topic, 1, message(1))
	open := map[int32]Delivery{}
	for _, d := range b.takeOpen(first, 2) {
		open[d.Partition] = d
	}
	second := b.member(topic)
	b.await("a partition to be left", func() bool { return second.Stats().Following == 1 && first.Stats().Leaving })
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		p := req.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0]
		if m := p.Metadata; m != nil && strings.Contains(*m, heartbeatSeparator) {
			open[p.Partition].Done()
		}
		return nil, nil, false
	})
	all := newTook()
	b.consume(second, 2, all)
	left := second.Stats().Partitions[0]
	b.putTo(topic, left, message(2))
	b.await("what came for the partition that was left", func() bool { return all.came(2) })
	n := b.log.count("is gone: they count as interrupted")
	check.AtMost(t, n, 0, "taken for interrupted: %d; came: %v", n, all.times)
	check.AtMost(t, all.count(), 1, "taken for interrupted: %d; came: %v", n, all.times)
}

// A commit that had to wait holds what is so when it goes out: of a partition that
// is released by then, that something of it is open.
func TestMemberCommitsWhatIsSoByThen(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.wideTopic(2)
	s := b.memberThatCommits(topic, time.Hour) // but once
	var open []Delivery
	for n := range 2 {
		b.putTo(topic, int32(n), message(n))
		open = append(open, b.takeOpen(s, 1)...)
		b.await("the first to be committed", func() bool { return n > 0 || len(s.feed.uncommitted()) == 0 })
	}
	commits := make(chan map[int32]bool, 100) // the partitions, and whether as released
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		released := map[int32]bool{}
		for _, p := range req.(*kmsg.OffsetCommitRequest).Topics[0].Partitions {
			released[p.Partition] = strings.Contains(*p.Metadata, heartbeatSeparator)
		}
		commits <- released
		return nil, nil, false
	})
	open[0].Done()
	c := s.feed.commits
	c.single <- struct{}{} // another commit is under way
	ended := make(chan error, 1)
	go func() { ended <- c.commit(b.ctx()) }()
	s.release([]int32{1})
	<-c.single
	check.NoError(t, check.Receive(t, ended))
	got, want := check.Receive(t, commits), (map[int32]bool{0: false, 1: true})
	check.That(t, maps.Equal(got, want), "committed partitions, and whether as released: %v, want %v", got, want)
	open[1].Done()
}

// A stop that cuts a revocation short commits what that had not: what is completed of
// the partitions does not run again at their next member.
func TestStopDuringARevocationCommits(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.wideTopic(1)
	s, last := b.memberOfTwo(topic)
	var refuses atomic.Bool
	refuses.Store(true)
	refused := make(chan struct{}, 1000)
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		if !refuses.Load() {
			return nil, nil, false
		}
		signal(refused)
		return refuseCommit(req, kerr.CoordinatorLoadInProgress.Code), nil, true
	})
	last.Done()
	revoked := make(chan struct{})
	go func() {
		defer close(revoked)
		s.revoked(context.Background(), nil, map[string][]int32{topic: {0}})
	}()
	<-refused
	ended := make(chan error, 1)
	go func() { ended <- s.Close(b.ctx()) }()
	<-revoked
	refuses.Store(false)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	check.Equal(t, b.committed(s.cfg.Group, topic), 2)
}

// A member that could not commit that it released a partition gives up what is open of
// it: the next one has no heartbeat to wait for, and reads there. A later commit would
// overwrite that member's.
func TestMemberThatCouldNotCommitItsRelease(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.wideTopic(1)
	s, last := b.memberOfTwo(topic)
	var refuses atomic.Bool
	refuses.Store(true)
	defer refuses.Store(false) // Close of a member commits until it is done
	var furthest atomic.Int64  // what was under way when the time was up may arrive later
	b.fake.ControlKey(kmsg.OffsetCommit.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		if !refuses.Load() {
			return nil, nil, false
		}
		for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
			furthest.Store(max(furthest.Load(), t.Partitions[0].Offset))
		}
		return refuseCommit(req, kerr.CoordinatorLoadInProgress.Code), nil, true
	})
	ctx, cancel := context.WithTimeout(b.ctx(), 20*time.Millisecond)
	defer cancel()
	s.revoked(ctx, nil, map[string][]int32{topic: {0}})
	got := s.Stats()
	check.That(t, !got.Leaving)
	check.Equal(t, len(got.Partitions), 0, "%+v", got)
	check.Equal(t, b.log.count("ERROR", "interrupted"), 1, "%s", b.log)
	last.Done()
	s.beat(time.Now())
	b.must(s.feed.commits.commit(b.ctx()))
	check.Equal(t, furthest.Load(), 1, "offset committed of a partition that another has")
}

// memberOfTwo is a member that took two messages of a partition. The first is completed
// and committed, the last is open; it commits by itself an hour later.
func (b *fixture) memberOfTwo(topic string) (s *Member, last Delivery) {
	b.t.Helper()
	s = b.memberThatCommits(topic, time.Hour)
	b.putTo(topic, 0, messages(0, 2)...)
	open := b.takeOpen(s, 2)
	open[0].Done()
	b.must(s.feed.commits.commit(b.ctx()))
	return s, open[1]
}

// takeOpen has a member take messages, which stay open.
func (b *fixture) takeOpen(s *Member, n int) (open []Delivery) {
	b.t.Helper()
	for range n {
		d, err := s.Next(b.ctx())
		b.must(err)
		d.Begin()
		open = append(open, d)
	}
	return open
}

// A member has long runs open and is asked for partitions; the one that they are
// for is killed. What comes for those partitions is taken by the living within
// the dead one's session, while a run is still open, and nothing runs twice.
func TestOpenRunsDoNotDelayADeadMembersPartitions(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		const parts = 6
		topic := b.wideTopic(parts)
		one := b.member(topic)
		for n := range parts {
			b.putTo(topic, int32(n), message(n))
		}
		open := map[int32]Delivery{}
		for _, d := range b.takeOpen(one, parts) {
			open[d.Partition] = d
		}
		child, _ := b.childMember(topic)
		b.await("partitions to be given up with runs open", func() bool {
			return len(one.Stats().Partitions) == parts/2 && one.Stats().Leaving
		})
		kept := map[int32]bool{}
		for _, i := range one.Stats().Partitions {
			kept[i] = true
		}
		long := int32(-1) // one of those that were given up
		for i, d := range open {
			if !kept[i] && long < 0 {
				long = i
				continue
			}
			d.Done()
		}
		b.await("one run to be open", func() bool { return one.Stats().Open == 1 })
		b.must(child.Process.Kill())
		all := newTook()
		b.consume(one, 1, all)
		for n := range parts {
			b.putTo(topic, int32(n), message(parts+n))
		}
		// The test ends long before HandOver does.
		b.await("what came for all partitions but the one with the run", func() bool { return all.count() == parts-1 })
		b.await("the one with the run to be left and not read", func() bool {
			st := one.Stats()
			return st.Leaving && st.Following == 1
		})
		open[long].Done()
		b.await("what came for that one", func() bool { return all.came(int(long) + parts) })
		all.mu.Lock()
		defer all.mu.Unlock()
		if b.log.count("went to others") > 0 {
			return // this machine stood still for longer than a session
		}
		for n := range 2 * parts {
			check.Equal(b.t, all.times[n], n/parts, "message %d came", n)
		}
	})
}

// A member that gave a partition up and is killed while it has runs open there
// does not keep it: what it had not completed is delivered to the next one, as
// begun.
func TestLeavingMemberThatDies(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.wideTopic(2)
		for n := range childTakes {
			b.putTo(topic, int32(n%4/2), message(n))
		}
		child, out := b.childMember(topic)
		done := childDone(b, out)
		s := b.member(topic)
		b.await("the second to wait for the child", func() bool { return s.Stats().Following == 1 })
		b.must(child.Process.Kill())
		for range childTakes - len(done) {
			d, err := s.Next(b.ctx())
			b.must(err)
			n := number(d)
			check.That(b.t, !done[n], "message %d came", n)
			check.That(b.t, d.Begun, "message %d came", n)
			d.Done()
		}
	})
}

// childMember starts a member in a process of its own, see beMembers.
func (b *fixture) childMember(topic string) (*exec.Cmd, io.Reader) {
	b.t.Helper()
	child := exec.CommandContext(b.ctx(), os.Args[0])
	child.Env = append(os.Environ(), "GPUWHISK_TEST_SHARE="+topic, "GPUWHISK_TEST_SHARE_BROKER="+b.addrs[0])
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	b.must(err)
	b.must(child.Start())
	b.t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	return child, out
}

// childDone reads from the child what it has completed, and that this is
// committed.
func childDone(b *fixture, out io.Reader) map[int]bool {
	b.t.Helper()
	done := map[int]bool{}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "committed" {
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "done %d", &n); err == nil {
			done[n] = true
		}
	}
	check.Equal(check.Must(b.t), len(done), childCompletes, "the child completed")
	return done
}
