package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/load"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// ErrMismatch means that invocations, acks and records do not agree.
var ErrMismatch = errors.New("invocations, acks and records do not agree")

// ackCounter counts the slot-freeing acks in Kafka, beside the controller.
type ackCounter struct {
	mu   sync.Mutex
	acks map[string]int // by activation
}

// countAcks counts from now on until stop: none that comes later is missed.
func countAcks(ctx context.Context, kafka string) (c *ackCounter, stop func(), err error) {
	bus, err := broker.Dial([]string{kafka}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	c = &ackCounter{acks: map[string]int{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- bus.Consume(ctx, "completed0", func() { close(ready) }, c.add)
		close(ended)
	}()
	stop = func() {
		cancel()
		<-ended //nolint:errcheck // ended by stop: its error is no news
		bus.Close()
	}
	select {
	case <-ready:
		return c, stop, nil
	case err := <-ended:
		stop()
		return nil, nil, fmt.Errorf("read acks: %w", err)
	}
}

func (c *ackCounter) add(value []byte) {
	ack, err := activation.DecodeAck(value)
	if err != nil || !ack.FreesSlot() || ack.TransID.ID() == "sid_invokerHealth" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks[string(ack.ActivationID)]++
}

func (c *ackCounter) counted() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.acks)
}

// settleTime is how long nothing may happen before what is missing counts as
// lost. Records are written in batches, behind the answers, and a call whose
// caller gave up may still be queued.
const settleTime = 30 * time.Second

// settle waits until there is an ack and a record for every call, or until no
// more come, and returns the records.
func settle(ctx context.Context, info standalone.Info, acks *ackCounter, calls int) (map[string]*activation.Record, error) {
	db, err := couchdb.New(info.Database)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	records := catalog.New(db, nil)
	all := records.Activations(info.Guest().Name, "")
	changed, seen := time.Now(), -1
	err = poll(ctx, func() (bool, error) {
		stored, err := records.Count(ctx, all)
		acked := len(acks.counted())
		if stored+acked > seen {
			changed, seen = time.Now(), stored+acked
		}
		return stored >= calls && acked >= calls || time.Since(changed) > settleTime, err
	})
	if err != nil {
		return nil, fmt.Errorf("count records: %w", err)
	}
	list, err := records.Records(ctx, all)
	byID := map[string]*activation.Record{}
	for _, r := range list {
		byID[string(r.ActivationID)] = r
	}
	return byID, err
}

// poll calls done until it returns true or an error, with pauses.
func poll(ctx context.Context, done func() (bool, error)) error {
	for {
		if yes, err := done(); yes || err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
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

// traffic is how much of the functions' memory was moved to the device and off
// it, in bytes.
type traffic struct{ in, out float64 }

// moved reads the invoker's count of it.
func moved(ctx context.Context, admin string) (t traffic, err error) {
	const name = "gpuwhisk_gpu_moved_bytes_total"
	t.in, err = metric(ctx, admin, name, `direction="prefetch"`)
	if err == nil {
		t.out, err = metric(ctx, admin, name, `direction="evict"`)
	}
	return t, err
}

// metric is the sum of a metric of the invoker, over the series that have a label.
func metric(ctx context.Context, admin, name, label string) (sum float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("request metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("request metrics: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if strings.HasPrefix(series, name+"{") && strings.Contains(series, label) {
			n, bad := strconv.ParseFloat(value, 64)
			sum, err = sum+n, errors.Join(err, bad)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	return sum, nil
}
