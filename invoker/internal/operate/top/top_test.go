package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

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
		"1/2 tokens  [##########..........] 8.0 GB of 16 GB   25% busy", "LOST: Xid 79",
		"ns/b      throttled  4       1        1.50 s  9      2       10 ms     2.00 s    2.50 s",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
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

// seen returns the text of a screen.
func seen(s tcell.Screen) string {
	width, height := s.Size()
	var b strings.Builder
	for y := range height {
		b.WriteByte('\n')
		for x := range width {
			r, _, _, _ := s.GetContent(x, y)
			b.WriteRune(r)
		}
	}
	return b.String()
}

// TestScreen opens the screen on a simulated terminal, and presses its keys.
func TestScreen(t *testing.T) {
	s := tcell.NewSimulationScreen("UTF-8")
	drawn := make(chan string, 1000) // more drawings than the test causes
	asked := 0
	ask := func(context.Context) (*Snapshot, error) {
		if asked++; asked == 1 {
			return nil, errors.New("connection refused")
		}
		return snapshot(t), nil
	}
	done := make(chan error, 1)
	go func() {
		done <- Show(t.Context(), Options{Ask: ask, Sort: "queued", Screen: s, Drawn: func(s tcell.Screen) { drawn <- seen(s) }})
	}()
	until := func(want string) string {
		t.Helper()
		for {
			select {
			case text := <-drawn:
				if strings.Contains(text, want) {
					return text
				}
			case err := <-done:
				t.Fatalf("ended without %q: %v", want, err)
			}
		}
	}
	until("connection refused")
	until("ns/cpu")
	s.SetSize(60, 20)
	small := until("by queued: s sort, p pause, q quit, / filter:")
	for _, want := range []string{"GPU 0 (A100)      1/2 tokens 8.0 GB of 16 GB   25% busy", "GPU 1 (simulated)", "FUNCTION", "throttled", "     9  2.50 s"} {
		check.Contains(t, small, want)
	}
	check.Lacks(t, small, "ns/ns")
	s.SetSize(120, 40)
	s.InjectKey(tcell.KeyRune, 's', 0)
	until("sorted by running")
	s.InjectKey(tcell.KeyRune, 'q', 0)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
