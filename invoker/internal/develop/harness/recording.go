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

// Record is a message of a topic.
type Record struct {
	Topic string `json:"topic"`
	Value string `json:"value"`
}

// IsAck reports whether the record is an ack for a controller.
func (r Record) IsAck() bool { return strings.HasPrefix(r.Topic, "completed") }

// ActivationID returns the activation id of an activation message, an event or an
// ack. It returns "" for other records.
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

// Shape returns the kind of an ack. Like a controller, it looks at the ack's fields.
func (r Record) Shape() string {
	var m map[string]json.RawMessage
	_ = json.Unmarshal([]byte(r.Value), &m) // a value that is not an object has no shape
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

// FreesSlot reports whether the record is the ack after which a controller considers
// the activation's slot free.
func (r Record) FreesSlot() bool { return r.IsAck() && r.Shape() != "result" }

// Recording stores the messages of topics in the order of each topic, and can send
// messages to an invoker.
type Recording struct {
	t      testing.TB
	client *kgo.Client
	admin  *kadm.Client
	topics []string

	mu      sync.Mutex
	records []Record
	next    map[string]int64 // offsets by topic
	counts  bool             // records are counted and not stored
	count   int64            // number of completions
	freed   map[string]int   // number of stored completions by activation
	changed chan struct{}    // closed and replaced at each new record
}

// NewRecording records existing topics from their beginnings.
func NewRecording(t testing.TB, addr string, topics ...string) *Recording {
	t.Helper()
	return newRecording(t, addr, topics, func(*Recording, string) int64 { return 0 })
}

// RecordFromNow records only new messages.
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

// Publish sends messages and blocks until the broker has them. It retries like a controller
// does, and fails the test if the broker does not take them in time.
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

// Send sends a message and does not wait for the broker; Flush does.
func (p *Recording) Send(topic string, message []byte) {
	p.client.Produce(context.Background(), &kgo.Record{Topic: topic, Value: message}, func(_ *kgo.Record, err error) {
		if err != nil {
			p.t.Errorf("send: %v", err)
		}
	})
}

// Flush blocks until the broker has all sent messages.
func (p *Recording) Flush() {
	p.t.Helper()
	check.NoError(p.t, p.client.Flush(p.t.Context()))
}

// All returns the records so far, and a channel that is closed at the next record.
func (p *Recording) All() ([]Record, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.records[:len(p.records):len(p.records)], p.changed
}

// CountOnly makes the recording count further records instead of storing them.
func (p *Recording) CountOnly() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts = true
}

// Completions returns the number of acks so far that free a slot.
func (p *Recording) Completions() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Completed returns the number of acks of an activation that free a slot.
func (p *Recording) Completed(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freed[id]
}

// AwaitCompleted blocks until each activation has an ack that frees its slot.
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

// At returns the offset of the next record to read of a topic.
func (p *Recording) At(topic string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next[topic]
}

// Wait blocks until want accepts the records so far. It fails the test if that does
// not happen in time.
func (p *Recording) Wait(what string, want func([]Record) bool) {
	p.t.Helper()
	p.until(peertest.WaitLimit, what, func(records []Record) string {
		if want(records) {
			return ""
		}
		return "did not come"
	})
}

// until calls whyNot after each new record until it returns "".
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

// ToTheEnd returns all records of the topics. The invoker must have ended.
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

// AwaitTopic blocks until a topic exists. An invoker creates its own topic.
func (p *Recording) AwaitTopic(name string) {
	p.t.Helper()
	ask(p, "topic "+name, func(ctx context.Context) (kadm.TopicDetails, error) {
		topics, err := p.admin.ListTopics(ctx, name)
		return topics, cmp.Or(err, topics.Error())
	})
}

// ask calls try until it succeeds, because the broker may be unreachable for a while.
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

// End returns the offset after a topic's last record.
func (p *Recording) End(topic string) int64 {
	p.t.Helper()
	return ask(p, "end of "+topic, func(ctx context.Context) (int64, error) {
		all, err := p.admin.ListEndOffsets(ctx, topic)
		at, _ := all.Lookup(topic, 0)
		return at.Offset, cmp.Or(err, all.Error())
	})
}

// Committed returns the committed offset of an invoker's topic, from which the next
// invoker reads, or -1 if there is none.
func (p *Recording) Committed(topic string) int64 {
	p.t.Helper()
	return ask(p, "committed offset of "+topic, func(ctx context.Context) (int64, error) {
		all, err := p.admin.FetchOffsetsForTopics(ctx, topic, topic)
		at, _ := all.Lookup(topic, 0)
		return at.At, err
	})
}

// Delete deletes a topic's records below an offset, as Kafka's retention does.
func (p *Recording) Delete(topic string, until int64) error {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, max(0, until), -1)
	deleted, err := p.admin.DeleteRecords(context.Background(), offsets)
	return cmp.Or(err, deleted.Error())
}
