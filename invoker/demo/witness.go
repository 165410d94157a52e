package demo

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
)

// witness reads the acks from Kafka and the records from the database by
// itself, beside the controller, to tell what really happened.
type witness struct {
	bus   *broker.Bus
	db    *couchdb.Client
	stop  context.CancelFunc
	ended chan error

	mu   sync.Mutex
	acks map[string]int // slot-freeing acks by activation
}

// listen begins to count acks: none that comes later is missed.
func listen(ctx context.Context, info standalone.Info) (*witness, error) {
	bus, err := broker.Dial([]string{info.Kafka}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	w := &witness{bus: bus, db: couchdb.New(info.Database), ended: make(chan error, 1), acks: map[string]int{}}
	consuming, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stop = stop
	ready := make(chan struct{})
	go func() {
		w.ended <- bus.Consume(consuming, "completed0", func() { close(ready) }, w.onAck)
	}()
	select {
	case <-ready:
		return w, nil
	case err := <-w.ended:
		w.ended <- err
		w.close()
		return nil, fmt.Errorf("listen to acks: %w", err)
	}
}

func (w *witness) close() {
	w.stop()
	<-w.ended //nolint:errcheck // ended by stop: its error is no news
	w.bus.Close()
	w.db.Close()
}

func (w *witness) onAck(value []byte) {
	ack, err := activation.DecodeAck(value)
	if err != nil || !ack.FreesSlot() || ack.TransID.ID() == "sid_invokerHealth" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks[string(ack.ActivationID)]++
}

// account is what the peers know.
type account struct {
	acks    map[string]int
	records map[string]*activation.Record
}

// settleTime is how long nothing may happen before what is missing counts as
// lost. Records are written in batches, behind the answers, and a call whose
// caller gave up may still be queued.
const settleTime = 30 * time.Second

// account asks until there is an ack and a record for every call, or until no
// more come.
func (w *witness) account(ctx context.Context, calls []call) (*account, error) {
	quiet := time.NewTimer(settleTime)
	defer quiet.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for seen := -1; ; {
		records, err := w.db.Count(ctx, w.query())
		if err != nil {
			return nil, err
		}
		acks := w.ackCount()
		if records >= len(calls) && acks >= len(calls) {
			return w.read(ctx)
		}
		if records+acks > seen {
			seen = records + acks
			quiet.Reset(settleTime)
		}
		select {
		case <-tick.C:
		case <-quiet.C:
			return w.read(ctx)
		case <-ctx.Done():
			return nil, fmt.Errorf("count records: %w", ctx.Err())
		}
	}
}

func (w *witness) ackCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acks)
}

func (w *witness) query() couchdb.Query {
	return couchdb.Query{DB: w.db.Names().Activations, Design: "whisks.v2.1.0", View: "activations", Prefix: standalone.Guest().Name}
}

// pageSize bounds one answer of the database.
const pageSize = 500

func (w *witness) read(ctx context.Context) (*account, error) {
	a := &account{acks: map[string]int{}, records: map[string]*activation.Record{}}
	for skip := 0; ; skip += pageSize {
		q := w.query()
		q.Docs, q.Skip, q.Limit = true, skip, pageSize
		docs, err := w.db.Rows(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, doc := range docs {
			r, err := activation.DecodeRecord(doc)
			if err != nil {
				return nil, err
			}
			a.records[string(r.ActivationID)] = r
		}
		if len(docs) < pageSize {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range w.acks {
		a.acks[id] = n
	}
	return a, nil
}

// verdict compares the three accounts.
type verdict struct {
	Invocations, Acks, Records     int
	Refused                        int // calls without an activation
	Unacknowledged, Doubled, Alien int // acks missing, more than one, of no call
	Unrecorded, Unasked            int // records missing, of no call
}

func (v verdict) ok() bool {
	return v.Refused+v.Unacknowledged+v.Doubled+v.Alien+v.Unrecorded+v.Unasked == 0
}

func judge(calls []call, a *account) verdict {
	v := verdict{Invocations: len(calls), Records: len(a.records)}
	asked := map[string]bool{}
	for _, c := range calls {
		if c.id == "" {
			v.Refused++
			continue
		}
		asked[c.id] = true
		if a.acks[c.id] == 0 {
			v.Unacknowledged++
		}
		if a.records[c.id] == nil {
			v.Unrecorded++
		}
	}
	for id, n := range a.acks {
		v.Acks += n
		if n > 1 {
			v.Doubled++
		}
		if !asked[id] {
			v.Alien++
		}
	}
	for id := range a.records {
		if !asked[id] {
			v.Unasked++
		}
	}
	return v
}
