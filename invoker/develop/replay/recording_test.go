package replay

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recording keeps everything that the invoker sends to controllers and to those who
// listen for user events, in the order of each topic.
type recording struct {
	t      *testing.T
	client *kgo.Client

	mu      sync.Mutex
	records []captured
	next    map[string]int64 // offsets by topic
	counts  bool             // nothing is kept
	freed   int64            // completions that came since it counts
	changed chan struct{}    // closed and replaced when something comes
}

func newRecording(t *testing.T, addr string) *recording {
	t.Helper()
	start := kgo.NewOffset().AtStart()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addr),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"completed0": {0: start}, "events": {0: start}}),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	p := &recording{t: t, client: client, next: map[string]int64{}, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.roll(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		client.Close()
	})
	return p
}

func (p *recording) roll(ctx context.Context) {
	for {
		fetches := p.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			one := captured{Topic: r.Topic, Value: string(r.Value)}
			switch {
			case !p.counts:
				p.records = append(p.records, one)
			case one.isAck() && one.shape() != "result":
				p.freed++
			}
			p.next[r.Topic] = r.Offset + 1
		})
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// all gives what came until now, and a channel that is closed when more comes.
func (p *recording) all() ([]captured, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.records[:len(p.records):len(p.records)], p.changed
}

// keepNothing has the recording count completions from now on and keep nothing.
func (p *recording) keepNothing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = true
}

// completions is how many came since then.
func (p *recording) completions() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freed
}

// at is how far a topic was read.
func (p *recording) at(topic string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next[topic]
}

// wait returns when what came satisfies want, and fails the test otherwise.
func (p *recording) wait(what string, want func([]captured) bool) {
	p.t.Helper()
	p.waitFor(waitLimit, what, want)
}

func (p *recording) waitFor(limit time.Duration, what string, want func([]captured) bool) {
	p.t.Helper()
	late := time.After(limit)
	for {
		records, more := p.all()
		if want(records) {
			return
		}
		select {
		case <-more:
		case <-late:
			p.t.Fatalf("did not come: %s", what)
		}
	}
}

// rewound gives all that the topics hold; the invoker must have ended.
func (p *recording) rewound() []captured {
	p.t.Helper()
	ends := map[string]int64{"completed0": p.end("completed0"), "events": p.end("events")}
	p.wait("the end of the topics", func([]captured) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.next["completed0"] >= ends["completed0"] && p.next["events"] >= ends["events"]
	})
	records, _ := p.all()
	return records
}

// topic waits until a topic is there: an invoker makes its own.
func (p *recording) topic(name string) {
	p.t.Helper()
	of := kmsg.NewMetadataRequestTopic()
	of.Topic = &name
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, of)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(waitLimit); ; {
		res, err := req.RequestWith(context.Background(), p.client)
		if err != nil {
			p.t.Fatal(err)
		}
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			p.t.Fatalf("no topic %s: %v", name, err)
		}
	}
}

// end is the offset behind a topic's last record.
func (p *recording) end(topic string) int64 {
	p.t.Helper()
	return p.edge(topic, -1)
}

// edge is the offset of a topic's first record, for -2, or behind its last, -1.
func (p *recording) edge(topic string, which int64) int64 {
	p.t.Helper()
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp = which
	of := kmsg.NewListOffsetsRequestTopic()
	of.Topic, of.Partitions = topic, append(of.Partitions, part)
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.Topics = -1, append(req.Topics, of)
	for _, shard := range p.client.RequestSharded(context.Background(), req) {
		if shard.Err != nil {
			p.t.Fatal(shard.Err)
		}
		for _, got := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			if err := kerr.ErrorForCode(got.Partitions[0].ErrorCode); err != nil {
				p.t.Fatal(err)
			}
			return got.Partitions[0].Offset
		}
	}
	p.t.Fatalf("no end of %s", topic)
	return 0
}

// committed is the position from which the next invoker reads, -1 without one.
func (p *recording) committed() int64 {
	p.t.Helper()
	of := kmsg.NewOffsetFetchRequestTopic()
	of.Topic, of.Partitions = "invoker0", []int32{0}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.Topics = "invoker0", append(req.Topics, of)
	group := kmsg.NewOffsetFetchRequestGroup()
	groupTopic := kmsg.NewOffsetFetchRequestGroupTopic()
	groupTopic.Topic, groupTopic.Partitions = "invoker0", []int32{0}
	group.Group, group.Topics = "invoker0", append(group.Topics, groupTopic)
	req.Groups = append(req.Groups, group)
	res, err := req.RequestWith(context.Background(), p.client)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, g := range res.Groups {
		for _, got := range g.Topics {
			return got.Partitions[0].Offset
		}
	}
	for _, got := range res.Topics {
		return got.Partitions[0].Offset
	}
	return -1
}
