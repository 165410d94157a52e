package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/load"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// errMismatch means that invocations, acks and records do not agree.
var errMismatch = errors.New("invocations, acks and records do not agree")

// readAcks sends the id of each activation whose slot an ack in Kafka frees, beside the
// controller, from now on until stop.
func readAcks(ctx context.Context, kafka string) (ids <-chan string, stop func(), err error) {
	bus, err := broker.Dial([]string{kafka}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	freed := make(chan string)
	ready := make(chan error, 2) // nil when it reads, and how it ended
	var reading sync.WaitGroup
	reading.Go(func() {
		ready <- bus.Consume(ctx, "completed0", func() { ready <- nil }, func(value []byte) {
			ack, err := activation.DecodeAck(value)
			if err != nil || !ack.FreesSlot() || ack.TransID.ID() == "sid_invokerHealth" {
				return
			}
			select {
			case freed <- string(ack.ActivationID):
			case <-ctx.Done():
			}
		})
	})
	stop = func() {
		cancel()
		reading.Wait()
		bus.Close()
	}
	if err := <-ready; err != nil {
		stop()
		return nil, nil, fmt.Errorf("read acks: %w", err)
	}
	return freed, stop, nil
}

// settleTime is the time without an event after which missing records and acks count as
// lost. Records are written in batches after the answers, and a call may still be
// queued after its caller gave up.
const settleTime = 30 * time.Second

// settle waits until there is an ack and a record for every call, or until no
// more come, and returns both.
func settle(ctx context.Context, info standalone.Info, ids <-chan string, calls int) (acks []string, records []*activation.Record, err error) {
	db, err := couchdb.New(info.Database)
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	all := db.Activations(info.Guest().Name, "")
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for changed := time.Now(); time.Since(changed) < settleTime; {
		select {
		case id := <-ids:
			acks, changed = append(acks, id), time.Now()
			continue
		case <-poll.C:
		}
		stored, err := db.Records(ctx, all)
		if err != nil {
			return nil, nil, fmt.Errorf("read records: %w", err)
		}
		if len(stored) > len(records) {
			changed = time.Now()
		}
		if records = stored; len(records) >= calls && len(acks) >= calls {
			break
		}
	}
	return acks, records, nil
}

// check prints whether there is exactly one ack and one record for each call.
func (p printer) check(calls []load.Call, acks []string, records []*activation.Record) error {
	type counts struct{ calls, acks, records int }
	all := map[string]counts{}
	count := func(id string, c counts) {
		n := all[id]
		all[id] = counts{n.calls + c.calls, n.acks + c.acks, n.records + c.records}
	}
	var wrong []string
	for _, c := range calls {
		if c.ID == "" {
			wrong = append(wrong, fmt.Sprintf("a call was refused: %s %s", c.Failure, c.Detail))
			continue
		}
		count(c.ID, counts{calls: 1})
	}
	for _, id := range acks {
		count(id, counts{acks: 1})
	}
	for _, r := range records {
		count(string(r.ActivationID), counts{records: 1})
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if n := all[id]; n != (counts{1, 1, 1}) {
			wrong = append(wrong, fmt.Sprintf("activation %s: %d calls, %d acks, %d records", id, n.calls, n.acks, n.records))
		}
	}
	sums := fmt.Sprintf("%d calls, %d acks in Kafka, %d records in the database", len(calls), len(acks), len(records))
	if len(wrong) > 0 {
		p.line("%s %s\n  %s", p.bold("MISMATCH"), sums, strings.Join(wrong[:min(len(wrong), 10)], "\n  "))
		return errMismatch
	}
	p.line("  ok %s: each once\n", sums)
	return nil
}

// moved is how many bytes of functions' memory were moved off the device and to it.
type moved struct{ out, in float64 }

var movedBytes = regexp.MustCompile(`gpuwhisk_gpu_moved_bytes_total\{.*direction="(\w+)".*\} (\S+)`)

// settledMoved returns the totals of moved memory once no move is in progress. A run
// does not always wait for its move.
func settledMoved(ctx context.Context, admin string) (moved, error) {
	before, err := readMoved(ctx, admin)
	for err == nil && retry.Sleep(ctx, 200*time.Millisecond) {
		now, nowErr := readMoved(ctx, admin)
		if now == before {
			return now, nowErr
		}
		before, err = now, nowErr
	}
	return before, errors.Join(err, ctx.Err())
}

// readMoved reads the invoker's metrics.
func readMoved(ctx context.Context, admin string) (m moved, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return m, fmt.Errorf("request metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return m, fmt.Errorf("request metrics: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return m, fmt.Errorf("read metrics: %w", err)
	}
	for _, series := range movedBytes.FindAllSubmatch(text, -1) {
		bytes, _ := strconv.ParseFloat(string(series[2]), 64)
		switch string(series[1]) {
		case "evict":
			m.out += bytes
		case "prefetch":
			m.in += bytes
		}
	}
	return m, nil
}
