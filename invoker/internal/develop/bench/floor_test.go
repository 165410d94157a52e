package bench

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// floor moves activations by the same hops and exchanges as the invoker, with the
// same clients, and does nothing else: no pool, no queues, no journal, no logs, no
// limits, no counts. It is the least that an invoker on these libraries could take.
type floor struct {
	broker, action, database string // addresses; the database's is a URL
	topic                    string
	parallel                 int // runs at a time

	store *couchdb.Store
	out   *kafka.Producer
}

// run ends with the context. Ready is called when messages are received.
func (f *floor) run(ctx context.Context, ready func()) error {
	log := slog.New(slog.DiscardHandler)
	cluster, err := kafka.New(kafka.Options{Brokers: []string{f.broker}, Log: log})
	if err != nil {
		return err
	}
	if err := cluster.EnsureTopic(ctx, kafka.TopicSpec{Name: f.topic}); err != nil {
		return err
	}
	known, err := activation.ParseManifest([]byte(manifest), activation.ManifestOptions{})
	if err != nil {
		return err
	}
	f.store, err = couchdb.Open(couchdb.Config{URL: f.database, Username: "u", Password: "p",
		Whisks: "whisks", Subjects: "subjects", Activations: "activations", Log: log}, known)
	if err != nil {
		return err
	}
	defer func() { _ = f.store.Close() }()
	f.out = cluster.NewProducer(kafka.ProducerConfig{Name: "floor"})
	defer func() { _ = f.out.Close(context.WithoutCancel(ctx)) }()
	feed := cluster.NewFeed(kafka.FeedConfig{Topic: f.topic})
	defer func() { _ = feed.Close(context.WithoutCancel(ctx)) }()
	var wg sync.WaitGroup
	defer wg.Wait()
	work := make(chan kafka.Delivery)
	defer close(work)
	for range f.parallel {
		wg.Go(func() {
			client := proxy.New(f.action, 1)
			defer client.Close()
			for d := range work {
				f.pass(ctx, d, client)
			}
		})
	}
	ready()
	for {
		d, err := feed.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		work <- d
	}
}

func (f *floor) pass(ctx context.Context, d kafka.Delivery, client *proxy.Client) {
	m := d.Message
	call, err := proxy.NewInvocation(m, m.Content, true)
	if err != nil {
		return // its sender waits in vain
	}
	client.Run(ctx, call.RunBody(time.Now().Add(time.Minute)), time.Minute, proxy.Limit{Max: 1 << 20, Truncation: 1 << 20})
	duration := int64(1)
	rec := &activation.Record{
		ActivationID: m.ActivationID, Namespace: "guest", Name: "a1", Subject: "guest", Version: "0.0.1", Duration: &duration,
		Response: activation.Response{Result: []byte(`{"ok":true}`)},
	}
	_ = f.out.SendAck(ctx, "completed"+m.Controller, activation.NewCombined(m.TransID, rec, activation.Instance{UserMemory: 1}), nil)
	_ = f.store.PutDocument(ctx, records.Document{ID: rec.DocumentID(), Body: rec.Document(1), Stored: func(int, error) { d.Done() }})
}

// floor runs one in this process until the benchmark ends.
func (r *controller) floor(parallel int) {
	f := &floor{broker: r.broker.Addr(), action: r.action, database: r.dbURL, topic: "invoker1", parallel: parallel}
	r.serve(f.run)
}
