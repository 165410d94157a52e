package assembly

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/forward"
)

// gpuHosts knows from their pings which of the named GPU invokers take activations.
type gpuHosts struct {
	self  int // this invoker's number, which is never chosen
	clock func() time.Duration

	mu    sync.Mutex
	table *forward.Table
}

// newGPUHosts returns nil if no invoker is named.
func newGPUHosts(own int, named []int) *gpuHosts {
	if len(named) == 0 {
		return nil
	}
	began := time.Now()
	return &gpuHosts{self: own, clock: func() time.Duration { return time.Since(began) }, table: forward.New(named...)}
}

// heard takes the pings that were read.
func (h *gpuHosts) heard(all []kafka.HeardPing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	h.table.Read(now)
	for _, p := range all {
		h.table.Reported(now, forward.Report{Invoker: p.Instance.ID, Enabled: p.Enabled, GPU: p.GPU, Backlog: p.Backlog})
	}
}

// choosePause is how long Choose waits between two looks at the pings.
const choosePause = 100 * time.Millisecond

// Choose implements invoker.GPUHosts.
func (h *gpuHosts) Choose(ctx context.Context, namespace, function string) (int, error) {
	tick := time.NewTicker(choosePause)
	defer tick.Stop()
	for {
		n, settled, err := h.choose(namespace, function)
		if err == nil || settled {
			return n, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// choose also reports whether an error holds until an invoker pings that did not.
func (h *gpuHosts) choose(namespace, function string) (n int, settled bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	if n, ok := h.table.Choose(now, namespace, function, h.self); ok {
		return n, true, nil
	}
	var why []string
	for _, s := range h.table.Statuses(now) {
		if s.Invoker != h.self {
			why = append(why, fmt.Sprintf("invoker%d %s", s.Invoker, s.Refuses))
		}
	}
	if len(why) == 0 {
		return 0, true, errors.New("no other invoker is named")
	}
	return 0, h.table.Settled(now), errors.New(strings.Join(why, ", "))
}

func (h *gpuHosts) statuses() []forward.Status {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.table.Statuses(h.clock())
}
