package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// collected is the output of OpenTelemetry's own receiver.
type collected struct {
	mu    sync.Mutex
	spans []span
	text  strings.Builder
}

// span is a span in its JSON.
type span struct {
	TraceID      string `json:"traceId"`
	SpanID       string `json:"spanId"`
	ParentSpanID string `json:"parentSpanId"`
	Name         string
	Start        string `json:"startTimeUnixNano"`
	End          string `json:"endTimeUnixNano"`
	Attributes   []struct {
		Key   string
		Value json.RawMessage
	}
}

func (s span) text(key string) string {
	for _, a := range s.Attributes {
		var v struct{ StringValue string }
		if a.Key == key && json.Unmarshal(a.Value, &v) == nil {
			return v.StringValue
		}
	}
	return ""
}

// ns is how long a span took.
func (s span) ns(t *testing.T) int64 {
	t.Helper()
	from, err := strconv.ParseInt(s.Start, 10, 64)
	check.NoError(t, err, "start of %s", s.Name)
	to, err := strconv.ParseInt(s.End, 10, 64)
	check.NoError(t, err, "end of %s", s.Name)
	return to - from
}

// collector starts the receiver, and gives its addresses for gRPC and HTTP.
func collector(t *testing.T) (got *collected, overGRPC, overHTTP string) {
	t.Helper()
	program := peertest.Variable(t, "GPUWHISK_TEST_COLLECTOR", "collector.sh")
	overGRPC, overHTTP = fmt.Sprint("127.0.0.1:", peertest.FreePort(t, 4000)), fmt.Sprint("127.0.0.1:", peertest.FreePort(t, 4000))
	cmd := exec.Command(program, "-grpc", overGRPC, "-http", overHTTP)
	cmd.Stderr = os.Stderr
	stop, err := cmd.StdinPipe()
	check.NoError(t, err)
	out, err := cmd.StdoutPipe()
	check.NoError(t, err)
	check.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil { // the line that it listens
		t.Fatalf("the collector ended at once: %v, %v", err, cmd.Wait())
	}
	got = &collected{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			got.take(line)
		}
	}()
	t.Cleanup(func() {
		stop.Close()
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("the collector: %v", err)
		}
	})
	return got, overGRPC, overHTTP
}

func (c *collected) take(line string) {
	var doc struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []span }
		}
	}
	err := json.Unmarshal([]byte(line), &doc)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(line)
	if err != nil {
		c.spans = append(c.spans, span{Name: err.Error()})
	}
	for _, r := range doc.ResourceSpans {
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// of gives an activation's spans by name once all of a batch are there, "" for
// the whole.
func (c *collected) of(id string) map[string]span {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.spans, func(s span) bool { return s.text("faas.invocation_id") == id })
	if i < 0 {
		return nil
	}
	all := map[string]span{"": c.spans[i]}
	for _, s := range c.spans {
		if s.ParentSpanID == c.spans[i].SpanID {
			all[s.Name] = s
		}
	}
	return all
}

// TestTracesArriveAtACollector: OpenTelemetry's own receiver gets one trace for
// an activation, as a part of the caller's, by either protocol. Parameters are
// not in it.
func TestTracesArriveAtACollector(t *testing.T) {
	got, overGRPC, overHTTP := collector(t)
	for name, env := range map[string]map[string]string{
		"http": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + overHTTP},
		"grpc": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + overGRPC, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50") // ms; the library reads it
			p := startGPU(t, 64, env)
			p.deployGPU(true, "first", "second")
			code := "def main(p):\n    print('a line')\n    return {'got': p['secret']}\n"
			p.create("plain", "python:3", code, limits(minutes, 256, 1))
			p.gpuCall("first", 1, "cold")
			p.gpuCall("second", 1, "cold")
			id := p.traced("first", `{"bytes":41943040}`)
			phases := whole(t, got, id, "queue", "move memory to device", "run", "acknowledge", "store record")
			root := phases[""]
			check.Equal(t, root.TraceID, callerTrace)
			check.Equal(t, root.ParentSpanID, callerSpan)
			check.Equal(t, root.text("gpuwhisk.start"), "host-warm")
			check.Contains(t, root.text("gpuwhisk.gpu.device"), "simulated")
			id = p.traced("plain", `{"secret":"a-secret-parameter"}`)
			phases = whole(t, got, id, "create container", "init", "run", "read logs", "acknowledge", "store record")
			check.AtLeast(t, phases[""].ns(t), phases["run"].ns(t)+phases["init"].ns(t), "the whole is shorter than its parts: %+v", phases)
			text := string(p.admin.Do(t, http.MethodGet, "/metrics"))
			for line, want := range map[string]bool{
				`gpuwhisk_trace_spans_total{outcome="error"} 0`: true, "gpuwhisk_traces_dropped_total 0": true,
				`gpuwhisk_trace_spans_total{outcome="ok"} 0`: false,
			} {
				check.Equal(t, strings.Contains(text, line), want, "/metrics has %s", line)
			}
		})
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	for _, secret := range []string{"a-secret-parameter", "api_key", "41943040"} {
		check.That(t, !strings.Contains(got.text.String(), secret), "%s is in a span", secret)
	}
}

// whole waits for an activation's trace that has some phases.
func whole(t *testing.T, got *collected, id string, phases ...string) (all map[string]span) {
	t.Helper()
	peertest.Until(t, "trace of "+id, func() string {
		all = got.of(id)
		for _, name := range phases {
			s, ok := all[name]
			if !ok {
				return fmt.Sprintf("no %q among %q", name, slices.Sorted(maps.Keys(all)))
			}
			if s.TraceID != all[""].TraceID {
				return name + " is in another trace"
			}
		}
		return ""
	})
	return all
}

// The caller's trace, as W3C has it.
const callerTrace, callerSpan = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

// traced invokes an action in the caller's trace, and gives the activation.
func (p *platform) traced(action, args string) string {
	p.t.Helper()
	res, _ := p.request(http.MethodPost, "/api/v1/namespaces/_/actions/"+action+"?blocking=true", args, func(req *http.Request) {
		user, password, _ := strings.Cut(p.c.AuthToken, ":")
		req.SetBasicAuth(user, password)
		req.Header.Set("traceparent", "00-"+callerTrace+"-"+callerSpan+"-01")
	})
	id := res.Header.Get("x-openwhisk-activation-id")
	check.Equal(check.Must(p.t), res.StatusCode, http.StatusOK, "%s", action)
	check.That(check.Must(p.t), id != "", "%s has no activation", action)
	return id
}
