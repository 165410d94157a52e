package invoker

import (
	"cmp"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
)

// Texts for users whose activation never reached a container, in OpenWhisk's words
// (Messages.scala). If the invoker itself fails, the text is proxy.TextAbnormal.
const (
	textGone         = "Action could not be found or may have been deleted."
	textIncompatible = "Action version is not compatible and cannot be invoked."
	textUnfetchable  = "Action could not be fetched."
	textBlocked      = "The action was not invoked due to a blacklisted namespace."
)

// Words of annotations.
const (
	unknownKind   = "unknown"
	causeSequence = "sequence"
)

// span returns the start and the end in the record: the exchange that ran, preceded by the
// time of init as if there had been no gap. took is the time of the last exchange.
func span(t *explain.Trace, now time.Time) (start, end time.Time, took time.Duration) {
	switch {
	case !t.RunStart.IsZero():
		start = millis(t.RunStart)
		if !t.InitStart.IsZero() {
			start = start.Add(-initTime(t))
		}
		return start, millis(t.RunEnd), t.RunEnd.Sub(t.RunStart)
	case !t.InitStart.IsZero():
		return millis(t.InitStart), millis(t.InitEnd), t.InitEnd.Sub(t.InitStart)
	}
	return millis(now), millis(now), 0
}

func initTime(t *explain.Trace) time.Duration { return millis(t.InitEnd).Sub(millis(t.InitStart)) }

func millis(t time.Time) time.Time { return t.Truncate(time.Millisecond) }

// record makes the record of a pending activation with its annotations in the original's
// order. If the action is not known, the record has no limits, no wait time and no duration.
func (p *pending) record(r activation.Response, now time.Time) *activation.Record {
	t := &p.trace
	start, end, took := span(t, now)
	duration := end.UnixMilli() - start.UnixMilli()
	rec := &activation.Record{
		ActivationID: p.ActivationID, Namespace: p.User.Namespace.Name, Name: p.Action.Name, Subject: p.User.Subject,
		Version: p.Version(), Cause: p.Cause, Start: start.UnixMilli(), End: end.UnixMilli(), Duration: &duration, Response: r,
	}
	annotations, details := &rec.Annotations, &rec.Details
	details.Path, details.Kind = p.Action.FQN(), cmp.Or(p.Kind, unknownKind)
	if a := p.action; a != nil {
		rec.Version = a.Version
		details.Path, details.Kind, details.MemoryMB = a.FQN(), a.Exec.Kind, int64(a.Limits.MemoryMB)
		waited := start
		if !t.InitStart.IsZero() {
			waited, details.InitTime = t.InitStart, initTime(t).Milliseconds()
		}
		details.WaitTime = waited.UnixMilli() - p.TransID.StartMillis()
	}
	if p.CausedBySequence() {
		details.CausedBy = causeSequence
		annotations.AddText("causedBy", causeSequence)
	}
	if p.action == nil {
		annotations.AddText("path", details.Path)
		annotations.AddText("kind", details.Kind)
		return rec
	}
	if p.Action.Binding != "" {
		annotations.AddText("binding", p.Action.Binding)
	}
	annotations.AddText("path", details.Path)
	annotations.AddNumber("waitTime", details.WaitTime)
	annotations.AddText("kind", details.Kind)
	t.TimedOut = took >= time.Duration(p.action.Limits.TimeoutMillis)*time.Millisecond // the last exchange took the whole limit
	annotations.AddBool("timeout", t.TimedOut)
	*annotations = append(*annotations, activation.Annotation{Key: "limits", Value: p.action.Limits.JSON()})
	if !t.InitStart.IsZero() {
		annotations.AddNumber("initTime", details.InitTime)
	}
	return rec
}

// StoreLevel says which responses get a record.
type StoreLevel int

// The levels of whisk.activation.store-*-result-level.
const (
	StoreAlways StoreLevel = iota
	StoreFailures
	StoreFailuresNotApplication
)

// StorePolicy is the level for each way of invoking.
type StorePolicy struct{ Blocking, NonBlocking StoreLevel }

// keeps reports whether a response gets a record (ActivationStoreLevel). A
// namespace may switch its records off altogether; a transaction with extra
// logging gets one whatever the level.
func (s StorePolicy) keeps(p *pending, r activation.Response) bool {
	if stores := p.User.Limits.StoreActivations; stores != nil && !*stores {
		return false
	}
	if p.TransID.ExtraLogging() {
		return true
	}
	level := s.NonBlocking
	if p.Blocking {
		level = s.Blocking
	}
	switch level {
	case StoreFailures:
		return r.StatusCode != activation.StatusSuccess
	case StoreFailuresNotApplication:
		return r.StatusCode >= activation.StatusDeveloperError
	}
	return true
}

// UserLogs gets the log lines of each activation whose logs are collected, followed by the
// activation itself, as OpenWhisk's DockerToActivationFileLogStore writes them. It keeps its
// argument, and must not block.
type UserLogs interface {
	Write(entry []byte)
}

// userLog makes the lines of one activation. Each line of the container's log is a JSON
// object and gets four more members. The last line is the activation without its logs.
func (p *pending) userLog(rec *activation.Record, raw [][]byte) []byte {
	space := member(nil, "namespaceId", p.User.Namespace.UUID)
	about := member(nil, "activationId", string(p.ActivationID))
	about = member(about, "action", p.action.FQN())
	about = append(member(about, "namespace", p.User.Namespace.Name), space...)
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
