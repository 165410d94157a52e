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
	ctx, cancel := context.WithCancel(ctx)
	ready := make(chan error, 2) // nil when it reads, and how it ended
	var reading sync.WaitGroup
	reading.Go(func() { ready <- bus.Consume(ctx, "completed0", func() { ready <- nil }, c.add) })
	stop = func() {
		cancel()
		reading.Wait()
		bus.Close()
	}
	if err := <-ready; err != nil {
		stop()
		return nil, nil, fmt.Errorf("read acks: %w", err)
	}
	return c, stop, nil
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
	all := db.Activations(info.Guest().Name, "")
	changed, seen := time.Now(), -1
	err = poll(ctx, func() (bool, error) {
		stored, err := db.Count(ctx, all)
		acked := len(acks.counted())
		if stored+acked > seen {
			changed, seen = time.Now(), stored+acked
		}
		return stored >= calls && acked >= calls || time.Since(changed) > settleTime, err
	})
	if err != nil {
		return nil, fmt.Errorf("count records: %w", err)
	}
	list, err := db.Records(ctx, all)
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

// check prints whether there is exactly one ack and one record for each call.
func (p printer) check(calls []load.Call, acks map[string]int, records map[string]*activation.Record) error {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	called := map[string]bool{}
	for _, c := range calls {
		called[c.ID] = true
		switch {
		case c.ID == "":
			add("a call was refused: %s %s", c.Failure, c.Detail)
		case acks[c.ID] != 1:
			add("activation %s has %d acks", c.ID, acks[c.ID])
		case records[c.ID] == nil:
			add("activation %s has no record", c.ID)
		}
	}
	sum := 0
	for _, id := range slices.Sorted(maps.Keys(acks)) {
		sum += acks[id]
		if !called[id] {
			add("an ack of no call: %s", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(records)) {
		if !called[id] {
			add("a record of no call: %s", id)
		}
	}
	counts := fmt.Sprintf("%d calls, %d acks in Kafka, %d records in the database", len(calls), sum, len(records))
	if len(wrong) == 0 {
		p.line("  %s %s: each once\n", p.paint(green, "ok"), counts)
		return nil
	}
	p.line("%s %s\n  %s", p.paint(red, "MISMATCH"), counts, strings.Join(wrong[:min(len(wrong), 10)], "\n  "))
	return ErrMismatch
}

// deviceUse is what the invoker's metrics have of its device: runs that hold a
// token, and bytes of functions' memory that were moved to the device and off it.
type deviceUse struct{ running, in, out float64 }

func readDeviceUse(ctx context.Context, admin string) (u deviceUse, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return u, fmt.Errorf("request metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return u, fmt.Errorf("request metrics: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return u, fmt.Errorf("read metrics: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		name, labels, _ := strings.Cut(series, "{")
		n, _ := strconv.ParseFloat(value, 64) // a comment has none
		switch moved := name == "gpuwhisk_gpu_moved_bytes_total"; {
		case name == "gpuwhisk_gpu_runs_in_flight":
			u.running += n
		case moved && strings.Contains(labels, `direction="prefetch"`):
			u.in += n
		case moved && strings.Contains(labels, `direction="evict"`):
			u.out += n
		}
	}
	return u, nil
}
