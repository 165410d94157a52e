package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestFeedReadsCompressedBatches(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		n := 0
		for _, codec := range []kgo.CompressionCodec{
			kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
		} {
			cl := b.client(kgo.ProducerBatchCompression(codec))
			var batch []*kgo.Record
			for range 5 {
				batch = append(batch, &kgo.Record{Topic: topic, Value: []byte(message(n))})
				n++
			}
			b.must(cl.ProduceSync(b.ctx(), batch...).FirstErr())
		}
		// A batch comes whole: the first that is wanted may be inside one.
		b.commit(topic, topic, 2)
		f := b.feed(topic)
		b.nexts(f, 2, n)
	})
}

// A transaction leaves a mark in the log, which is an offset without a message.
func TestFeedPassesTransactionMarkers(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic()
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.TransactionalID(freshName()))
		b.must(err)
		defer cl.Close()
		for n := range 3 {
			b.must(cl.BeginTransaction())
			r := &kgo.Record{Topic: topic, Value: []byte(message(n))}
			b.must(cl.ProduceSync(b.ctx(), r).FirstErr())
			b.must(cl.EndTransaction(b.ctx(), kgo.TryCommit))
		}
		f := b.feed(topic)
		done(b.nexts(f, 0, 3))
		b.put(topic, message(3))
		check.Equal(b.t, b.next(f, 3).Offset, 6)
	})
}

func TestFeedReadsAMessageLargerThanAFetch(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		topic := b.topic(fmt.Sprintf("max.message.bytes=%d", MaxMessageBytes))
		large := strings.Replace(message(1), `"content":{`, `"content":{"x":"`+strings.Repeat("x", 1<<20)+`",`, 1)
		b.put(topic, message(0), message(2))
		cl := b.client(kgo.ProducerBatchMaxBytes(2 << 20))
		b.must(cl.ProduceSync(b.ctx(), &kgo.Record{Topic: topic, Value: []byte(large)}).FirstErr())
		b.put(topic, message(3))
		f := b.feed(topic)
		for _, n := range []int{0, 2, 1, 3} {
			b.next(f, n)
		}
	})
}
