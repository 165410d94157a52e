package trace

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// sample is a trace with every phase that there is.
func sample() *explain.Trace {
	return &explain.Trace{
		ID: "f3451515706c4512a5e615cbb7db0a89", Namespace: "guest", Action: "guest/infer", Kind: "python:3", Sent: at(0),
		Accepted: at(3), Queued: at(4), Granted: at(2104), Launched: at(2105), Start: "cold", Container: "wsk00_1_guest_infer",
		CreateStart: at(2105), Create: 500 * time.Millisecond, InitStart: at(2605), InitEnd: at(2700),
		RunStart: at(2700), RunEnd: at(2906), LogsStart: at(2906), Logs: time.Millisecond, Answered: at(2908),
		Acked: at(2910), Stored: at(2915), Completed: at(2915), Recorded: true, Status: 1,
		GPU: &explain.GPU{Device: "0 (A100)", MoveStart: at(2005), Moved: 90 * time.Millisecond, Memory: 1 << 30, WaitReason: "throttled",
			Lead: 10 * time.Second, Behind: "guest/b", Passed: 15},
	}
}

// phases are the spans of sample, with their ends in ms.
var phases = map[string][2]int{
	"guest/guest/infer": {3, 2915}, spanFetch: {3, 4}, spanQueue: {4, 2104}, spanMemory: {2005, 2095}, spanCreate: {2105, 2605},
	spanInit: {2605, 2700}, spanRun: {2700, 2906}, spanLogs: {2906, 2907}, spanAck: {2908, 2910}, spanRecord: {2908, 2915},
}

// receiver is a strict receiver of OTLP: it refuses unknown fields.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*otlp.Span
	about map[string]string // of the resource
	heads http.Header
	got   chan struct{}
}

func newReceiver() *receiver {
	return &receiver{about: map[string]string{}, got: make(chan struct{}, 1000)}
}

func (r *receiver) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range req.ResourceSpans {
		for k, v := range values(rs.Resource.Attributes) {
			r.about[k] = v
		}
		for _, ss := range rs.ScopeSpans {
			r.spans = append(r.spans, ss.Spans...)
		}
	}
	r.got <- struct{}{}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, h *http.Request) {
	b, err := io.ReadAll(h.Body)
	var req collector.ExportTraceServiceRequest
	if err != nil || h.Method != http.MethodPost || h.URL.Path != "/v1/traces" ||
		h.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(b, &req) != nil || len(req.ProtoReflect().GetUnknown()) > 0 {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	r.heads = h.Header
	_, _ = r.Export(h.Context(), &req)
	out, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out)
}

func values(all []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range all {
		m[kv.Key] = strings.TrimSpace(kv.Value.String())
	}
	return m
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t *testing.T, c Config) *Tracer {
	t.Helper()
	c.Instance, c.Version = "invoker0", "1.2.3"
	tr, err := New(t.Context(), c, quiet())
	check.NoError(t, err)
	return tr
}

func shut(t *testing.T, tr *Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := tr.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestPhasesArrive sends one activation by either protocol and reads it at the
// other end.
func TestPhasesArrive(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=of%20a%20test")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=try,service.name=whisk")
	overHTTP, overGRPC := newReceiver(), newReceiver()
	web := httptest.NewServer(overHTTP)
	defer web.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, overGRPC)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	for _, try := range []struct {
		c Config
		r *receiver
	}{
		{Config{Protocol: HTTP, Endpoint: web.URL + "/v1/traces"}, overHTTP},
		{Config{Protocol: GRPC, Endpoint: "http://" + l.Addr().String()}, overGRPC},
	} {
		try.r.spans = nil
		tr := open(t, try.c)
		tr.Ended(sample(), nil)
		shut(t, tr)
		check.Equal(t, tr.Stats(), Stats{Sent: int64(len(phases))}, "%+v", try.c)
		judge(t, try.r.spans)
		for key, want := range map[string]string{"service.name": "whisk", "deployment.environment": "try", "service.instance.id": "invoker0"} {
			check.Contains(t, try.r.about[key], want, "%s of the resource", key)
		}
	}
	check.Equal(t, overHTTP.heads.Get("X-Key"), "of a test")
}

// judge looks at the spans of sample: one trace, one root, every phase in it at
// its times.
func judge(t *testing.T, spans []*otlp.Span) {
	t.Helper()
	check.Equal(t, len(spans), len(phases))
	i := slices.IndexFunc(spans, func(s *otlp.Span) bool { return s.Name == "guest/guest/infer" })
	if i < 0 {
		t.Fatal("no span of the whole")
	}
	root := spans[i]
	check.Equal(t, hex.EncodeToString(root.ParentSpanId), "")
	check.Equal(t, root.Kind, otlp.Span_SPAN_KIND_CONSUMER)
	check.Equal(t, root.Status.Code, otlp.Status_STATUS_CODE_ERROR)
	about := values(root.Attributes)
	for key, want := range map[string]string{
		"faas.invocation_id": "f3451515706c4512a5e615cbb7db0a89", "faas.coldstart": "true", "openwhisk.namespace": "guest",
		"gpuwhisk.gpu.device": "0 (A100)", "openwhisk.status_code": "1",
	} {
		check.Contains(t, about[key], want, "%s", key)
	}
	for _, s := range spans {
		want, ok := phases[s.Name]
		if !ok {
			t.Errorf("span %q", s.Name)
			continue
		}
		check.Equal(t, s.StartTimeUnixNano, uint64(at(want[0]).UnixNano()), "%s", s.Name)
		check.Equal(t, s.EndTimeUnixNano, uint64(at(want[1]).UnixNano()), "%s", s.Name)
		check.Equal(t, hex.EncodeToString(s.TraceId), hex.EncodeToString(root.TraceId), "%s", s.Name)
		if s != root {
			check.Equal(t, hex.EncodeToString(s.ParentSpanId), hex.EncodeToString(root.SpanId), "%s", s.Name)
		}
	}
}

// TestJoinsTheMessage: the message's trace context, of Zipkin or of W3C, names the parent
// of the span.
func TestJoinsTheMessage(t *testing.T) {
	for name, c := range map[string]struct{ context, trace, parent string }{
		"zipkin":          {`{"X-B3-Sampled":"1","X-B3-SpanId":"f5f1cf0a2dfd1a40","X-B3-TraceId":"f5f1cf0a2dfd1a40"}`, "0000000000000000f5f1cf0a2dfd1a40", "f5f1cf0a2dfd1a40"},
		"zipkin, 128 bit": {`{"X-B3-Sampled":"1","X-B3-SpanId":"f5f1cf0a2dfd1a40","X-B3-TraceId":"463ac35c9f6413ad48485a3953bb6124","X-B3-ParentSpanId":"0020000000000001"}`, "463ac35c9f6413ad48485a3953bb6124", "f5f1cf0a2dfd1a40"},
		"w3c":             {`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=b"}`, "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"},
		"both":            {`{"Traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","X-B3-Sampled":"1","X-B3-SpanId":"f5f1cf0a2dfd1a40","X-B3-TraceId":"f5f1cf0a2dfd1a40"}`, "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"},
		"half a context":  {`{"X-B3-TraceId":"abc"}`, "", ""},
		"not sampled":     {`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}`, "none", ""},
		"of other types":  {`{"traceparent":7}`, "", ""},
		"no object":       {`[1]`, "", ""},
	} {
		r := newReceiver()
		web := httptest.NewServer(r)
		tr := open(t, Config{Protocol: HTTP, Endpoint: web.URL + "/v1/traces"})
		tr.Ended(sample(), json.RawMessage(c.context))
		shut(t, tr)
		web.Close()
		if c.trace == "none" {
			if len(r.spans) > 0 {
				t.Errorf("%s: %d spans", name, len(r.spans))
			}
			continue
		}
		i := slices.IndexFunc(r.spans, func(s *otlp.Span) bool { return s.Name == "guest/guest/infer" })
		if i < 0 {
			t.Errorf("%s: no span", name)
			continue
		}
		if c.trace != "" {
			check.Equal(t, hex.EncodeToString(r.spans[i].TraceId), c.trace, "%s", name)
		}
		check.Equal(t, hex.EncodeToString(r.spans[i].ParentSpanId), c.parent, "%s", name)
	}
}

// TestNeverBlocks: a receiver that takes nothing costs traces, which are counted,
// and neither time nor the end.
func TestNeverBlocks(t *testing.T) {
	stuck := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // without it the server does not see the client leave
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	}))
	defer web.Close()
	defer close(stuck)
	var logged bytes.Buffer
	tr, err := New(t.Context(), Config{Protocol: HTTP, Endpoint: web.URL + "/v1/traces"}, slog.New(slog.NewTextHandler(&logged, nil)))
	check.NoError(t, err)
	const n = 10 * queueCapacity
	for range n {
		tr.Ended(sample(), nil)
	}
	if tr.Stats().Dropped == 0 {
		t.Error("a queue of any length")
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := tr.Close(over); err != nil {
		t.Error(err)
	}
	s := tr.Stats()
	check.Equal(t, s.Sent, 0)
	check.Equal(t, s.Failed, (n-s.Dropped)*int64(len(phases)), "%d activations, %d dropped", n, s.Dropped)
	check.Equal(t, strings.Count(logged.String(), "traces cannot be sent"), 1, "%s", logged.String())
}

// BenchmarkEnded measures an export up to the receiver (sent), and a drop because the
// queue is full (full).
func BenchmarkEnded(b *testing.B) {
	a, c := sample(), json.RawMessage(`{"X-B3-Sampled":"1","X-B3-SpanId":"f5f1cf0a2dfd1a40","X-B3-TraceId":"f5f1cf0a2dfd1a40"}`)
	for _, kind := range []string{"sent", "full"} {
		b.Run(kind, func(b *testing.B) {
			web := httptest.NewServer(newReceiverFor(b))
			defer web.Close()
			tr, err := New(b.Context(), Config{Protocol: HTTP, Endpoint: web.URL + "/v1/traces"}, quiet())
			check.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				for kind == "sent" && len(tr.queue) == cap(tr.queue) {
					runtime.Gosched()
				}
				tr.Ended(a, c)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = tr.Close(ctx)
			b.ReportMetric(float64(tr.Stats().Dropped)/float64(b.N), "dropped/op")
		})
	}
}

func newReceiverFor(b *testing.B) http.Handler {
	b.Helper()
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
}
