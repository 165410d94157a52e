package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
)

// Record is one message of a topic.
type Record struct {
	Topic string `json:"topic"`
	Value string `json:"value"`
}

// IsAck reports whether the record is one for a controller.
func (r Record) IsAck() bool { return strings.HasPrefix(r.Topic, "completed") }

// ActivationID reads the id of an activation message or of an event, or of
// either kind of ack; it is empty for what is none of these.
func (r Record) ActivationID() string {
	var m struct {
		ActivationID string
		Response     json.RawMessage
		Body         struct{ ActivationID string }
	}
	if json.Unmarshal([]byte(r.Value), &m) != nil {
		return ""
	}
	var whole struct{ ActivationID string }
	var id string
	switch {
	case m.ActivationID != "":
		return m.ActivationID
	case m.Body.ActivationID != "":
		return m.Body.ActivationID
	case json.Unmarshal(m.Response, &id) == nil && id != "":
		return id
	case json.Unmarshal(m.Response, &whole) == nil:
		return whole.ActivationID
	}
	return ""
}

// Shape names the kind of an ack by its fields, as a controller does.
func (r Record) Shape() string {
	var m map[string]json.RawMessage
	_ = json.Unmarshal([]byte(r.Value), &m) // no object: no shape
	switch {
	case m["response"] == nil:
		return "completion"
	case m["instance"] == nil:
		return "result"
	case m["response"][0] == '"':
		return "combined by id"
	}
	return "combined"
}

// FreesSlot reports whether it is the ack by which a controller takes an
// activation's slot as free again.
func (r Record) FreesSlot() bool { return r.IsAck() && r.Shape() != "result" }

// Recording keeps what an invoker sends to topics, in the order of each, and sends
// messages to it.
type Recording struct {
	t      testing.TB
	client *kgo.Client
	admin  *kadm.Client
	topics []string

	mu      sync.Mutex
	records []Record
	next    map[string]int64 // offsets by topic
	counts  bool             // nothing is kept
	count   int64            // completions that came
	freed   map[string]int   // the same by activation, of those that are kept
	changed chan struct{}    // closed and replaced when something comes
}

// NewRecording records topics that are there from their beginnings.
func NewRecording(t testing.TB, addr string, topics ...string) *Recording {
	t.Helper()
	return newRecording(t, addr, topics, func(*Recording, string) int64 { return 0 })
}

// RecordFromNow records only what comes from now on.
func RecordFromNow(t testing.TB, addr string, topics ...string) *Recording {
	t.Helper()
	return newRecording(t, addr, topics, (*Recording).End)
}

func newRecording(t testing.TB, addr string, topics []string, start func(*Recording, string) int64) *Recording {
	t.Helper()
	p := &Recording{t: t, topics: topics, next: map[string]int64{}, freed: map[string]int{}, changed: make(chan struct{})}
	p.client = connect(t, addr, kgo.MetadataMinAge(100*time.Millisecond), kgo.ProducerBatchMaxBytes(broker.MaxMessageBytes+1024))
	p.admin = kadm.NewClient(p.client)
	from := map[string]map[int32]kgo.Offset{}
	for _, topic := range topics {
		from[topic] = map[int32]kgo.Offset{0: kgo.NewOffset().At(start(p, topic))}
	}
	p.client.AddConsumePartitions(from)
	consume(t, p.client, p.add)
	return p
}

func (p *Recording) add(fetches kgo.Fetches) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		one := Record{Topic: r.Topic, Value: string(r.Value)}
		completes := one.FreesSlot()
		if completes {
			p.count++
		}
		if !p.counts {
			p.records = append(p.records, one)
			if completes {
				p.freed[one.ActivationID()]++
			}
		}
		p.next[r.Topic] = r.Offset + 1
	})
	close(p.changed)
	p.changed = make(chan struct{})
}

// Publish sends messages as a controller does that tries for as long as it takes;
// they are with the broker when it returns.
func (p *Recording) Publish(t testing.TB, topic string, messages ...[]byte) {
	t.Helper()
	records := make([]*kgo.Record, len(messages))
	for i, m := range messages {
		records[i] = &kgo.Record{Topic: topic, Value: m}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*peertest.WaitLimit)
	defer cancel()
	check.NoError(t, p.client.ProduceSync(ctx, records...).FirstErr(), "publish")
}

// Send sends a message and does not wait until it is with the broker. Flush does.
func (p *Recording) Send(topic string, message []byte) {
	p.client.Produce(context.Background(), &kgo.Record{Topic: topic, Value: message}, func(_ *kgo.Record, err error) {
		if err != nil {
			p.t.Errorf("send: %v", err)
		}
	})
}

// Flush waits until all that was sent is with the broker.
func (p *Recording) Flush() {
	p.t.Helper()
	check.NoError(p.t, p.client.Flush(p.t.Context()))
}

// All gives what came until now, and a channel that is closed when more comes.
func (p *Recording) All() ([]Record, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.records[:len(p.records):len(p.records)], p.changed
}

// CountOnly has the recording keep nothing of what comes, only count.
func (p *Recording) CountOnly() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = true
}

// Completions is how many acks came that free a slot.
func (p *Recording) Completions() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Completed is how many of them came for an activation.
func (p *Recording) Completed(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freed[id]
}

// AwaitCompleted waits until each activation has one.
func (p *Recording) AwaitCompleted(ids ...string) {
	p.t.Helper()
	p.until(peertest.WaitLimit+time.Duration(len(ids))*100*time.Millisecond, "completions", func([]Record) string {
		for len(ids) > 0 && p.Completed(ids[0]) > 0 {
			ids = ids[1:]
		}
		if len(ids) == 0 {
			return ""
		}
		return fmt.Sprintf("%d are missing, that of %s first", len(ids), ids[0])
	})
}

// At is how far a topic was read.
func (p *Recording) At(topic string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next[topic]
}

// Wait returns when what came satisfies want, and fails the test otherwise.
func (p *Recording) Wait(what string, want func([]Record) bool) {
	p.t.Helper()
	p.until(peertest.WaitLimit, what, func(records []Record) string {
		if want(records) {
			return ""
		}
		return "did not come"
	})
}

// until asks why not whenever something came, until the answer is empty.
func (p *Recording) until(limit time.Duration, what string, whyNot func([]Record) string) {
	p.t.Helper()
	late := time.After(limit)
	for {
		records, more := p.All()
		reason := whyNot(records)
		if reason == "" {
			return
		}
		select {
		case <-more:
		case <-late:
			p.t.Fatalf("%s: %s", what, reason)
		}
	}
}

// ToTheEnd gives all that the topics hold; the invoker must have ended.
func (p *Recording) ToTheEnd() []Record {
	p.t.Helper()
	ends := map[string]int64{}
	for _, topic := range p.topics {
		ends[topic] = p.End(topic)
	}
	p.Wait("the end of the topics", func([]Record) bool {
		return !slices.ContainsFunc(p.topics, func(topic string) bool { return p.At(topic) < ends[topic] })
	})
	records, _ := p.All()
	return records
}

// AwaitTopic waits until a topic is there: an invoker makes its own.
func (p *Recording) AwaitTopic(name string) {
	p.t.Helper()
	ask(p, "topic "+name, func(ctx context.Context) (kadm.TopicDetails, error) {
		topics, err := p.admin.ListTopics(ctx, name)
		return topics, cmp.Or(err, topics.Error())
	})
}

// ask calls try until it succeeds: the broker may be away.
func ask[T any](p *Recording, what string, try func(context.Context) (T, error)) (answer T) {
	p.t.Helper()
	peertest.Until(p.t, what, func() string {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var err error
		if answer, err = try(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
	return answer
}

// End is the offset behind a topic's last record.
func (p *Recording) End(topic string) int64 {
	p.t.Helper()
	return p.edge(topic, p.admin.ListEndOffsets)
}

// First is the offset of a topic's first record.
func (p *Recording) First(topic string) int64 {
	p.t.Helper()
	return p.edge(topic, p.admin.ListStartOffsets)
}

func (p *Recording) edge(topic string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) int64 {
	p.t.Helper()
	return ask(p, "offsets of "+topic, func(ctx context.Context) (int64, error) {
		all, err := list(ctx, topic)
		at, _ := all.Lookup(topic, 0)
		return at.Offset, cmp.Or(err, all.Error())
	})
}

// Committed is the position of an invoker's topic from which the next invoker reads,
// -1 without one.
func (p *Recording) Committed(topic string) int64 {
	p.t.Helper()
	return ask(p, "committed offset of "+topic, func(ctx context.Context) (int64, error) {
		all, err := p.admin.FetchOffsetsForTopics(ctx, topic, topic)
		at, _ := all.Lookup(topic, 0)
		return at.At, err
	})
}

// Delete deletes a topic's records below an offset, as its retention does.
func (p *Recording) Delete(topic string, until int64) error {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, max(0, until), -1)
	deleted, err := p.admin.DeleteRecords(context.Background(), offsets)
	return cmp.Or(err, deleted.Error())
}
