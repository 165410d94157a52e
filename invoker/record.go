package invoker

import (
	"cmp"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Texts that users read when an activation never reached a container; they are
// the original's (Messages.scala).
const (
	textGone         = "Action could not be found or may have been deleted."
	textIncompatible = "Action version is not compatible and cannot be invoked."
	textUnfetchable  = "Action could not be fetched."
	textBlocked      = "The action was not invoked due to a blacklisted namespace."
	textAborted      = "The action did not produce a valid response and exited unexpectedly."
)

// Words of annotations.
const (
	unknownKind   = "unknown"
	causeSequence = "sequence"
)

// fallbackRecord is the trace of an activation of whose action nothing is
// known but its kind, or not even that: no limits, no wait time, no duration.
func fallbackRecord(m *activation.Message, kind string, r activation.Response, now time.Time) *activation.Record {
	kind = cmp.Or(kind, unknownKind)
	rec := newRecord(m, m.Version(), r, now, now)
	if m.CausedBySequence() {
		rec.Annotations.AddText("causedBy", causeSequence)
	}
	rec.Annotations.AddText("path", m.Action.FQN())
	rec.Annotations.AddText("kind", kind)
	rec.Details.Path, rec.Details.Kind = m.Action.FQN(), kind
	return rec
}

// times are the instants of a run. The zero time stands for what did not
// happen.
type times struct {
	begun              time.Time // the worker
	initStart, initEnd time.Time
	runStart, runEnd   time.Time
}

// span is the start and the end that the record shows: the exchange that ran,
// with the time of init put before it as if there had been no gap.
func (t times) span(now time.Time) (start, end time.Time) {
	switch {
	case !t.runStart.IsZero():
		start = millis(t.runStart)
		if !t.initStart.IsZero() {
			start = start.Add(-t.initTime())
		}
		return start, millis(t.runEnd)
	case !t.initStart.IsZero():
		return millis(t.initStart), millis(t.initEnd)
	}
	return millis(now), millis(now)
}

func (t times) initTime() time.Duration { return millis(t.initEnd).Sub(millis(t.initStart)) }

func millis(t time.Time) time.Time { return t.Truncate(time.Millisecond) }

// runRecord is the trace of an activation whose action was known, in the
// original's order of annotations.
func runRecord(m *activation.Message, a *activation.Action, r activation.Response, at times, now time.Time) *activation.Record {
	start, end := at.span(now)
	rec := newRecord(m, a.Version, r, start, end)
	annotations, details := &rec.Annotations, &rec.Details
	details.Path, details.Kind, details.MemoryMB = a.FQN(), a.Exec.Kind, int64(a.Limits.MemoryMB)
	if m.CausedBySequence() {
		annotations.AddText("causedBy", causeSequence)
	}
	if m.Action.Binding != "" {
		annotations.AddText("binding", m.Action.Binding)
	}
	annotations.AddText("path", details.Path)
	waited := start
	if !at.initStart.IsZero() {
		waited = at.initStart
	}
	details.WaitTime = waited.UnixMilli() - m.TransID.StartMillis()
	annotations.AddNumber("waitTime", details.WaitTime)
	annotations.AddText("kind", a.Exec.Kind)
	annotations.AddBool("timeout", timedOut(a, at))
	*annotations = append(*annotations, activation.Annotation{Key: "limits", Value: a.Limits.JSON()})
	if !at.initStart.IsZero() {
		details.InitTime = at.initTime().Milliseconds()
		annotations.AddNumber("initTime", details.InitTime)
	}
	return rec
}

// timedOut reports whether the last exchange took the whole limit.
func timedOut(a *activation.Action, at times) bool {
	took := at.initEnd.Sub(at.initStart)
	if !at.runStart.IsZero() {
		took = at.runEnd.Sub(at.runStart)
	}
	return took >= time.Duration(a.Limits.TimeoutMillis)*time.Millisecond
}

func newRecord(m *activation.Message, version string, r activation.Response, start, end time.Time) *activation.Record {
	duration := end.UnixMilli() - start.UnixMilli()
	var details activation.RunDetails
	if m.CausedBySequence() {
		details.CausedBy = causeSequence
	}
	return &activation.Record{
		Details:      details,
		ActivationID: m.ActivationID,
		Namespace:    m.User.Namespace.Name,
		Name:         m.Action.Name,
		Subject:      m.User.Subject,
		Version:      version,
		Cause:        m.Cause,
		Start:        start.UnixMilli(),
		End:          end.UnixMilli(),
		Duration:     &duration,
		Response:     r,
	}
}

// UserLogs gets the log lines of each activation whose logs are collected, and
// after them the activation itself, as OpenWhisk's
// DockerToActivationFileLogStore writes them. It keeps what it is given, and
// waits for nothing.
type UserLogs interface {
	Write(entry []byte)
}

// userLog makes the lines of one activation: each that its container printed is
// the JSON object of the container's log with four members more, the last is the
// activation without its logs.
func userLog(m *activation.Message, a *activation.Action, rec *activation.Record, raw [][]byte) []byte {
	space := member(nil, "namespaceId", m.User.Namespace.UUID)
	about := member(nil, "activationId", string(m.ActivationID))
	about = member(about, "action", a.FQN())
	about = append(member(about, "namespace", m.User.Namespace.Name), space...)
	size := 1024 + len(rec.Response.Result)
	for _, line := range raw {
		size += len(line) + len(about) + 1
	}
	out := make([]byte, 0, size)
	for _, line := range raw {
		out = within(append(out, line...), about)
	}
	return within(rec.AppendAck(out), space)
}

// member appends a comma and a member of a JSON object.
func member(dst []byte, key, value string) []byte {
	dst = activation.AppendString(append(dst, ','), key)
	return activation.AppendString(append(dst, ':'), value)
}

// within puts members into the object that ends dst, and ends the line.
func within(dst, members []byte) []byte {
	return append(append(dst[:len(dst)-1], members...), "}\n"...)
}
