package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/load"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// ErrMismatch says that invocations, acks and records do not agree.
var ErrMismatch = errors.New("invocations, acks and records do not agree")

// watcher reads the acks from Kafka and the records from the database by
// itself, beside the controller.
type watcher struct {
	bus   *broker.Bus
	db    *couchdb.Client
	stop  context.CancelFunc
	ended chan error

	mu   sync.Mutex
	acks map[string]int // slot-freeing acks by activation
}

// watch begins to count acks: none that comes later is missed.
func watch(ctx context.Context, info standalone.Info) (*watcher, error) {
	bus, err := broker.Dial([]string{info.Kafka}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	db, err := couchdb.New(info.Database)
	if err != nil {
		bus.Close()
		return nil, err
	}
	consuming, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &watcher{bus: bus, db: db, stop: stop, ended: make(chan error, 1), acks: map[string]int{}}
	ready := make(chan struct{})
	go func() {
		w.ended <- bus.Consume(consuming, "completed0", func() { close(ready) }, w.onAck)
		close(w.ended)
	}()
	select {
	case <-ready:
		return w, nil
	case err := <-w.ended:
		w.close()
		return nil, fmt.Errorf("read acks: %w", err)
	}
}

func (w *watcher) close() {
	w.stop()
	<-w.ended //nolint:errcheck // ended by stop: its error is no news
	w.bus.Close()
	w.db.Close()
}

func (w *watcher) onAck(value []byte) {
	ack, err := activation.DecodeAck(value)
	if err != nil || !ack.FreesSlot() || ack.TransID.ID() == "sid_invokerHealth" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks[string(ack.ActivationID)]++
}

func (w *watcher) counted() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.acks)
}

// settleTime is how long nothing may happen before what is missing counts as
// lost. Records are written in batches, behind the answers, and a call whose
// caller gave up may still be queued.
const settleTime = 30 * time.Second

// settle waits until there is an ack and a record for every call, or until no
// more come, and returns the records.
func (w *watcher) settle(ctx context.Context, calls int) (map[string]*activation.Record, error) {
	records := catalog.New(w.db, nil)
	all := catalog.RecordQuery{Namespace: standalone.Guest().Name}
	changed, seen := time.Now(), -1
	for {
		n, err := records.CountRecords(ctx, all)
		if err != nil {
			return nil, err
		}
		acks := len(w.counted())
		if n+acks > seen {
			changed, seen = time.Now(), n+acks
		}
		if n >= calls && acks >= calls || time.Since(changed) > settleTime {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, fmt.Errorf("count records: %w", err)
		}
	}
	list, err := records.Records(ctx, all)
	byID := map[string]*activation.Record{}
	for _, r := range list {
		byID[string(r.ActivationID)] = r
	}
	return byID, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// differences lists what does not have exactly one ack and one record.
func differences(calls []load.Call, acks map[string]int, records map[string]*activation.Record) []string {
	var found []string
	asked := map[string]bool{}
	for _, c := range calls {
		asked[c.ID] = true
		switch {
		case c.ID == "":
			found = append(found, fmt.Sprintf("a call was refused: %s %s", c.Failure, c.Detail))
		case acks[c.ID] != 1:
			found = append(found, fmt.Sprintf("activation %s has %d acks", c.ID, acks[c.ID]))
		case records[c.ID] == nil:
			found = append(found, fmt.Sprintf("activation %s has no record", c.ID))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(acks)) {
		if !asked[id] {
			found = append(found, "an ack of no call: "+id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(records)) {
		if !asked[id] {
			found = append(found, "a record of no call: "+id)
		}
	}
	return found
}

// gpuRun is the annotation that the record of a GPU run carries.
type gpuRun struct {
	Start     string `json:"start"`
	QueueTime int64  `json:"queueTime"`
}

// gpuRunOf reads the annotation; false where the run was of no GPU function.
func gpuRunOf(r *activation.Record) (run gpuRun, ok bool) {
	raw, ok := r.Annotations.Get("gpu")
	return run, ok && json.Unmarshal(raw, &run) == nil
}

// traffic is how much of the functions' memory was moved to the device and off
// it, in bytes.
type traffic struct{ in, out float64 }

// movedBytes reads the invoker's count of it.
func movedBytes(ctx context.Context, addr string) (t traffic, err error) {
	families, err := metrics(ctx, addr)
	for _, m := range families["gpuwhisk_gpu_moved_bytes_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			switch l.GetName() + "=" + l.GetValue() {
			case "direction=prefetch":
				t.in += m.GetCounter().GetValue()
			case "direction=evict":
				t.out += m.GetCounter().GetValue()
			}
		}
	}
	return t, err
}

// runsInFlight reads how many runs there are on the devices.
func runsInFlight(ctx context.Context, addr string) (n int, err error) {
	families, err := metrics(ctx, addr)
	for _, m := range families["gpuwhisk_gpu_runs_in_flight"].GetMetric() {
		n += int(m.GetGauge().GetValue())
	}
	return n, err
}

func metrics(ctx context.Context, addr string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("request metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("request metrics: %w", err)
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return families, nil
}
