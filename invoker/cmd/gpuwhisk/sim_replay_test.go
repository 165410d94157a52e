package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// TestReplay: a log that gives the same orders is told as such, also when its
// last line was cut off; one that does not is an error that shows both.
func TestReplay(t *testing.T) {
	cfg, _ := sched.Defaults("mqfq-sticky")
	c := lane.Config{
		Policy: "mqfq-sticky", Sched: cfg, Tokens: gpu.TokensConfig{Max: 1}, Pool: gpu.PoolConfig{Size: 2},
		Devices: []gpu.Device{{MemoryBytes: 1 << 34}},
	}
	l, err := lane.New(c)
	if err != nil {
		t.Fatal(err)
	}
	log, _ := lane.AppendConfig(nil, c)
	for item := range uint64(3) {
		e := lane.Event{
			At: time.Duration(item) * time.Second, Kind: lane.Submitted, Item: item + 1,
			Function: &lane.Function{Flow: sched.FlowID{Namespace: "n", Function: "f"}, Key: "k"},
		}
		log, _ = lane.AppendEvent(log, e)
		l.Take(e)
		log, _ = lane.AppendOrders(log, l.Ready())
	}
	for _, c := range []struct{ log, out, err string }{
		{string(log), "the same orders: 3 events gave 2 orders on 1 devices under mqfq-sticky, in 2s", ""},
		{string(log) + `{"at":1`, "the last line is not whole", ""},
		{strings.Replace(string(log), `"do":"make"`, `"do":"remove"`, 1), "", "f.log: line 3: the orders differ\nrecorded: "},
		{"", "", "f.log: empty"},
	} {
		var out bytes.Buffer
		err := simReplayCmd{File: "f.log", Check: true}.replay(strings.NewReader(c.log), &out)
		if err == nil && c.err != "" || err != nil && (c.err == "" || !strings.HasPrefix(err.Error(), c.err)) || !strings.HasPrefix(out.String(), c.out) {
			t.Errorf("%.40q: %q, %v; want %q, %s", c.log, out.String(), err, c.out, c.err)
		}
	}
}
