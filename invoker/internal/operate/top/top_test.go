package top

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const text = `{"at":1,"version":"v1","status":{"instance":"invoker0/a","healthy":false,"reasons":["pings: no broker"],"uptime":"3s","kafka":{"lag":7},
"work":{"inFlight":3,"capacity":64,"policy":"mqfq-sticky","containers":[{},{}],
"devices":[{"device":"0 (A100)","tokens":2,"inFlight":1,"memoryBytes":17179869184,"usedBytes":8589934592,"utilization":0.25},{"device":"1 (gpu)","simulated":true,"lost":"Xid 79"}],
"flows":[{"flow":"ns/ns/b","state":"throttled","queued":4,"inFlight":1,"leadMs":1500,"why":"ns/ns/b throttled: x"},{"flow":"ns/ns/a","state":"active","queued":4}]}},
"functions":[{"function":"ns/ns/b","count":9,"failed":2,"waitMs":{"p50":10,"p95":2000},"latencyMs":{"p95":2500}},{"function":"ns/ns/cpu","count":30,"latencyMs":{"p95":12}}]}`

func snapshot(t *testing.T) *Snapshot {
	t.Helper()
	var s Snapshot
	check.NoError(t, json.Unmarshal([]byte(text), &s))
	return &s
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	check.NoError(t, Print(&out, snapshot(t), "queued", ""))
	for _, want := range []string{
		"NOT HEALTHY", "classic mode", "! pings: no broker", "3 in flight, 8 queued for a GPU, 2 flows, 2 containers, 7 behind in Kafka, policy mqfq-sticky",
		"GPU 0 (A100)", "1/2 tokens  [##########..........] 8.0 GB of 16 GB   25% busy", "GPU 1 (simulated)", "LOST: Xid 79",
		"FUNCTION  STATE      QUEUED  RUNNING  LEAD    CALLS  FAILED  WAIT P50  WAIT P95  ALL P95",
		"ns/b      throttled  4       1        1.50 s  9      2       10 ms     2.00 s    2.50 s",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	check.Lacks(t, out.String(), "ns/ns")
}

// In scheduler mode a line shows pulled activations and ordered creations.
func TestPrintSchedulerMode(t *testing.T) {
	var s Snapshot
	scheduled := strings.Replace(text, `"work":`, `"scheduling":{"pulled":9,"fetching":2,"slots":{"pulled":3,"waitingCreations":4},"creations":{"opened":8,"WhiskError":1,"stale":2}},"work":`, 1)
	check.NoError(t, json.Unmarshal([]byte(scheduled), &s))
	var out bytes.Buffer
	check.NoError(t, Print(&out, &s, "queued", ""))
	for _, want := range []string{"scheduler mode", "9 pulled, 3 in flight, 2 fetches waiting, 4 creations waiting, 3 refused"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestArrange(t *testing.T) {
	for by, want := range map[string]string{
		"queued": "a b cpu", "running": "b a cpu", "lead": "b a cpu", "wait": "b a cpu", "latency": "b cpu a", "calls": "cpu b a", "name": "a b cpu",
	} {
		var got []string
		for _, r := range arrange(rows(snapshot(t)), by, "") {
			got = append(got, strings.TrimPrefix(r.Name, "ns/"))
		}
		check.Equal(t, strings.Join(got, " "), want, "by %s", by)
	}
	for filter, want := range map[string]int{"CPU": 1, "throttled": 1, "ns/": 3, "unknown": 0} {
		if got := len(arrange(rows(snapshot(t)), "name", filter)); got != want {
			t.Errorf("filter %q leaves %d, want %d", filter, got, want)
		}
	}
}

// Fit shows the first lines, and the first columns of each.
func TestFit(t *testing.T) {
	for _, c := range []struct {
		text          string
		width, height int
		want          string
	}{
		{"invoker0\nns/é  9\nlast\n", 4, 3, "invo\nns/é\n"},
		{"invoker0\nns/a\n", 80, 24, "invoker0\nns/a\n"},
		{"invoker0\nns/a\n", 80, 1, "invoker0\n"},
	} {
		check.Equal(t, Fit(c.text, c.width, c.height), c.want)
	}
}
