package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// TestReplay: a log that leads to the same orders is reported as such, even if its last
// line is cut off. A log that leads to other orders is an error that shows both orders.
func TestReplay(t *testing.T) {
	cfg, _ := sched.Defaults("mqfq-sticky")
	c := scheduler.Config{
		Policy: "mqfq-sticky", Sched: cfg, Tokens: gpu.TokensConfig{Max: 1}, Pool: gpu.PoolConfig{Size: 2},
		Devices: []gpu.Device{{MemoryBytes: 1 << 34}},
	}
	l, err := scheduler.New(c)
	check.NoError(t, err)
	log, _ := scheduler.AppendConfig(nil, c)
	for i := range uint64(3) {
		e := scheduler.Event{
			At: time.Duration(i) * time.Second, Kind: scheduler.Submitted, Invocation: i + 1,
			Function: &scheduler.Function{Flow: sched.FlowID{Namespace: "n", Function: "f"}, Key: "k"},
		}
		log, _ = scheduler.AppendEvent(log, e)
		l.Take(e)
		log, _ = scheduler.AppendOrders(log, l.Ready())
	}
	for _, c := range []struct{ log, out, err string }{
		{string(log), "the same orders: 3 events gave 2 orders on 1 devices under mqfq-sticky, in 2s", ""},
		{string(log) + `{"at":1`, "the last line is incomplete", ""},
		{strings.Replace(string(log), `"do":"create"`, `"do":"remove"`, 1), "", "f.log: line 3: the orders differ\nrecorded: "},
		{"", "", "f.log: empty"},
	} {
		var out bytes.Buffer
		err := simReplayCmd{File: "f.log", Check: true}.replay(strings.NewReader(c.log), &out)
		if c.err == "" {
			check.NoError(t, err, "%.40q", c.log)
		}
		check.That(t, strings.HasPrefix(fmt.Sprint(err), c.err), "%.40q: %v, want %s", c.log, err, c.err)
		check.That(t, strings.HasPrefix(out.String(), c.out), "%.40q: %q, want %q", c.log, &out, c.out)
	}
}
