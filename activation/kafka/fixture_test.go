package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// testTimeout bounds each wait of a test for an event. A passing test never waits that long.
const testTimeout = 2 * time.Minute

// fixture is a broker under test with an independent client.
type fixture struct {
	t     *testing.T
	addrs []string
	fake  *kfake.Cluster // nil: a real one
	log   *logbook
	peer  *kgo.Client
}

// onEachBroker runs a test against a broker in this process and against a real
// one where there is one.
func onEachBroker(t *testing.T, test func(*fixture)) {
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(newFakeFixture(t))
	})
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		test(newFixture(t, nil, realBroker(t)))
	})
}

// realBroker is the address of a real broker; without one the test is skipped,
// or fails where peers are required.
func realBroker(t *testing.T) string {
	t.Helper()
	addr := peertest.Variable(t, "GPUWHISK_TEST_KAFKA", "kafka.sh")
	coordinated(t, addr)
	return addr
}

// coordinated waits until the broker stores positions. A new broker first creates the topic
// for positions, when a client first asks for a coordinator, and refuses commits until then.
// Otherwise the first test would log an interruption.
func coordinated(t *testing.T, addr string) {
	t.Helper()
	b := newFixture(t, nil, addr)
	b.await("a coordinator", func() bool { return b.admin().FindGroupCoordinators(b.ctx(), "tests").Ok() })
}

func newFakeFixture(t *testing.T, opts ...kfake.Opt) *fixture {
	fake := startFake(t, opts...)
	return newFixture(t, fake, fake.ListenAddrs()...)
}

func startFake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	opts = append([]kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Millisecond)}, opts...)
	fake, err := kfake.NewCluster(opts...)
	check.NoError(t, err)
	t.Cleanup(fake.Close)
	return fake
}

func newFixture(t *testing.T, fake *kfake.Cluster, addrs ...string) *fixture {
	t.Helper()
	b := &fixture{t: t, addrs: addrs, fake: fake, log: &logbook{}}
	b.peer = b.client()
	return b
}

// client makes a further independent client.
func (b *fixture) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(b.addrs...), kgo.MaxVersions(kversion.V3_9_0()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.NoCompression())}, opts...)
	cl, err := kgo.NewClient(opts...)
	b.must(err)
	b.t.Cleanup(cl.Close)
	return cl
}

// admin returns a client for administration, which the code under test lacks.
func (b *fixture) admin() *kadm.Client { return kadm.NewClient(b.peer) }

// cluster returns the code under test.
func (b *fixture) cluster() *Cluster {
	b.t.Helper()
	c, err := New(Options{Brokers: b.addrs, Log: b.log.logger()})
	b.must(err)
	return c
}

func (b *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), testTimeout)
	b.t.Cleanup(cancel)
	return ctx
}

var topics atomic.Int64

// topic makes a topic that no other test uses.
func (b *fixture) topic(config ...string) string {
	b.t.Helper()
	name := freshName()
	b.create(name, config...)
	return name
}

func freshName() string { return fmt.Sprintf("t%d-%d", time.Now().UnixNano(), topics.Add(1)) }

func (b *fixture) create(name string, config ...string) { b.createWide(name, 1, config...) }

// topicOf makes a topic that no other test uses, with messages.
func (b *fixture) topicOf(values ...string) string {
	b.t.Helper()
	name := b.topic()
	b.put(name, values...)
	return name
}

// wideTopic makes a topic of so many partitions that no other test uses.
func (b *fixture) wideTopic(partitions int32) string {
	b.t.Helper()
	name := freshName()
	b.createWide(name, partitions)
	return name
}

// createWide makes a topic with so many partitions.
func (b *fixture) createWide(name string, partitions int32, config ...string) {
	b.t.Helper()
	settings := map[string]*string{}
	for _, kv := range config {
		key, value, _ := strings.Cut(kv, "=")
		settings[key] = &value
	}
	var err error
	b.await("an older topic "+name+" to be gone", func() bool { // brokers with ZooKeeper forget it before that
		_, err = b.admin().CreateTopic(b.ctx(), partitions, 1, settings, name)
		return !errors.Is(err, kerr.TopicAlreadyExists)
	})
	check.NoError(b.t, err, "create topic %s", name)
	if b.fake == nil { // a real broker has a new topic after its controller has answered
		b.await("the broker to know topic "+name, func() bool { return b.knows(name) })
	}
}

// knows reports whether the broker has a leader for a topic.
func (b *fixture) knows(name string) bool {
	b.t.Helper()
	req := kmsg.NewPtrMetadataRequest() // the library's answer may be from before
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, topic)
	res, err := req.RequestWith(b.ctx(), b.peer)
	check.NoError(b.t, err, "ask for topic %s", name)
	known := res.Topics[0]
	return known.ErrorCode == 0 && len(known.Partitions) > 0 && known.Partitions[0].ErrorCode == 0
}

// put writes values to a topic as a controller does.
func (b *fixture) put(topic string, values ...string) {
	b.t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(v)})
	}
	err := b.peer.ProduceSync(b.ctx(), records...).FirstErr()
	check.NoError(b.t, err, "produce to %s", topic)
}

// take reads n records of a topic from its beginning.
func (b *fixture) take(topic string, n int) []*kgo.Record {
	b.t.Helper()
	cl := b.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {0: kgo.NewOffset().AtStart()},
	}))
	defer cl.Close()
	var got []*kgo.Record
	ctx := b.ctx()
	for len(got) < n {
		fetches := cl.PollFetches(ctx)
		check.NoError(b.t, ctx.Err(), "topic %s has %d records, want %d", topic, len(got), n)
		got = append(got, fetches.Records()...)
	}
	return got
}

// has fails the test unless these are the first values of a topic.
func (b *fixture) has(topic string, values ...string) {
	b.t.Helper()
	for n, r := range b.take(topic, len(values)) {
		check.Equal(check.Must(b.t), string(r.Value), values[n], "record %d of %s", n, topic)
	}
}

// end is the offset after the last record of a topic.
func (b *fixture) end(topic string) int64 {
	b.t.Helper()
	all, err := b.admin().ListEndOffsets(b.ctx(), topic)
	b.must(cmp.Or(err, all.Error()))
	return all[topic][0].Offset
}

// committed is a group's position in a topic, -1 when it has none.
func (b *fixture) committed(group, topic string) int64 {
	offset, _ := b.committedMetadata(group, topic)
	return offset
}

// committedMetadata returns a group's position in a topic and the metadata of that commit.
func (b *fixture) committedMetadata(group, topic string) (int64, string) {
	b.t.Helper()
	all, err := b.admin().FetchOffsets(b.ctx(), group)
	p, ok := all.Lookup(topic, 0)
	switch {
	case errors.Is(err, kerr.GroupIDNotFound), err == nil && !ok:
		return -1, ""
	case err != nil:
		b.t.Fatal(err)
	}
	return p.At, p.Metadata
}

// position fails the test unless the broker has this as the position of the group of
// a topic's own.
func (b *fixture) position(topic string, want int64) {
	b.t.Helper()
	check.Equal(b.t, b.committed(topic, topic), want)
}

// must ends the test where there is an error.
func (b *fixture) must(err error) {
	b.t.Helper()
	check.NoError(b.t, err)
}

// await polls until the condition holds. It is only for the state of a peer, which must be
// asked. Our own side is awaited by its calls.
func (b *fixture) await(what string, is func() bool) {
	b.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(testTimeout)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("waited in vain for: %s\nlog:\n%s", what, b.log)
		}
	}
}

// logbook stores log lines. Tests wait for lines and count them.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *logbook) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// count is how many lines have all the words.
func (l *logbook) count(words ...string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
