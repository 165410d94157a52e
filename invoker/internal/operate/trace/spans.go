package trace

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	api "go.opentelemetry.io/otel/trace"
)

// Names of the spans of an activation's phases. The root span has the name of the
// function.
const (
	spanFetch  = "fetch action"
	spanQueue  = "queue"
	spanCreate = "create container"
	spanMemory = "move memory to device"
	spanInit   = "init"
	spanRun    = "run"
	spanLogs   = "read logs"
	spanAck    = "acknowledge"
	spanRecord = "store record"
)

// spans makes the root span of an activation, and a child span for each phase.
func spans(parent context.Context, t api.Tracer, a *explain.Trace) {
	begin := firstKnown(a.Accepted, a.Sent, a.Queued, a.Answered)
	ctx, whole := t.Start(parent, a.Function(), api.WithTimestamp(begin), api.WithSpanKind(api.SpanKindConsumer))
	if !whole.IsRecording() { // the parent or the sampler excludes the activation
		whole.End(api.WithTimestamp(latest(begin, a.Completed, a.Answered)))
		return
	}
	whole.SetAttributes(rootAttributes(a)...)
	if a.Status != 0 {
		whole.SetStatus(codes.Error, a.Outcome())
	}
	phase := func(name string, from, to time.Time, more ...attribute.KeyValue) {
		if from.IsZero() || to.Before(from) {
			return
		}
		_, s := t.Start(ctx, name, api.WithTimestamp(from), api.WithAttributes(more...))
		s.End(api.WithTimestamp(to))
	}
	phase(spanFetch, a.Accepted, a.Queued)
	phase(spanQueue, a.Queued, a.Granted, waitAttributes(a.GPU)...)
	phase(spanCreate, a.CreateStart, a.CreateStart.Add(a.Create))
	if g := a.GPU; g != nil {
		phase(spanMemory, g.MoveStart, g.MoveStart.Add(g.Moved))
	}
	phase(spanInit, a.InitStart, a.InitEnd)
	phase(spanRun, a.RunStart, a.RunEnd)
	phase(spanLogs, a.LogsStart, a.LogsStart.Add(a.Logs))
	phase(spanAck, a.Answered, a.Acked)
	phase(spanRecord, a.Answered, a.Stored)
	whole.End(api.WithTimestamp(latest(begin, a.Completed, a.Answered)))
}

// rootAttributes returns the attributes of the root span, under OpenTelemetry's names for
// functions if there are any.
func rootAttributes(a *explain.Trace) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("faas.invocation_id", a.ID),
		attribute.String("faas.name", a.Action),
		attribute.String("openwhisk.namespace", a.Namespace),
		attribute.Int("openwhisk.status_code", a.Status),
	}
	text := func(key, value string) {
		if value != "" {
			all = append(all, attribute.String(key, value))
		}
	}
	text("openwhisk.kind", a.Kind)
	text("gpuwhisk.container", a.Container)
	text("gpuwhisk.refused", a.Refused)
	if a.Start != "" {
		all = append(all, attribute.String("gpuwhisk.start", a.Start), attribute.Bool("faas.coldstart", a.Cold()))
	}
	if a.Again > 0 {
		all = append(all, attribute.Int("gpuwhisk.containers_gone", a.Again))
	}
	if a.TimedOut {
		all = append(all, attribute.Bool("gpuwhisk.timed_out", true))
	}
	if g := a.GPU; g != nil {
		text("gpuwhisk.gpu.device", g.Device)
		all = append(all, attribute.Bool("gpuwhisk.gpu.simulated", g.Simulated),
			attribute.Int64("gpuwhisk.gpu.memory", g.Memory), attribute.Int("gpuwhisk.gpu.beside", g.Beside))
	}
	return all
}

// waitAttributes returns the reasons for which a GPU run waited in its queue.
func waitAttributes(g *explain.GPU) []attribute.KeyValue {
	if g == nil || g.WaitReason == "" {
		return nil
	}
	all := []attribute.KeyValue{
		attribute.String("gpuwhisk.queue.wait_reason", g.WaitReason),
		attribute.Int("gpuwhisk.queue.own_before", g.Own), attribute.Int("gpuwhisk.queue.others_before", g.Passed),
		attribute.Float64("gpuwhisk.queue.lead_seconds", g.Lead.Seconds()),
	}
	if g.Behind != "" {
		all = append(all, attribute.String("gpuwhisk.queue.behind", g.Behind))
	}
	return all
}

// firstKnown returns the first time that is not zero.
func firstKnown(all ...time.Time) time.Time {
	for _, t := range all {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// latest returns the latest time.
func latest(t time.Time, all ...time.Time) time.Time {
	for _, u := range all {
		if u.After(t) {
			t = u
		}
	}
	return t
}
