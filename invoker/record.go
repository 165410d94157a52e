package invoker

import (
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

// fallbackRecord is the account of an activation of whose action nothing is
// known: no limits, no wait time, kind "unknown", no duration.
func fallbackRecord(m *activation.Message, r activation.Response, now time.Time) *activation.Record {
	rec := newRecord(m, m.Version(), r, now, now)
	if m.CausedBySequence() {
		rec.Annotations.AddText("causedBy", causeSequence)
	}
	rec.Annotations.AddText("path", m.Action.FQN())
	rec.Annotations.AddText("kind", unknownKind)
	rec.Facts.Path, rec.Facts.Kind = m.Action.FQN(), unknownKind
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

// runRecord is the account of an activation whose action was known, in the
// original's order of annotations.
func runRecord(m *activation.Message, a *activation.Action, r activation.Response, at times, now time.Time) *activation.Record {
	start, end := at.span(now)
	rec := newRecord(m, a.Version, r, start, end)
	notes, facts := &rec.Annotations, &rec.Facts
	facts.Path, facts.Kind, facts.MemoryMB = a.FQN(), a.Exec.Kind, int64(a.Limits.MemoryMB)
	if m.CausedBySequence() {
		notes.AddText("causedBy", causeSequence)
	}
	if m.Action.Binding != "" {
		notes.AddText("binding", m.Action.Binding)
	}
	notes.AddText("path", facts.Path)
	waited := start
	if !at.initStart.IsZero() {
		waited = at.initStart
	}
	facts.WaitTime = waited.UnixMilli() - m.TransID.StartMillis()
	notes.AddNumber("waitTime", facts.WaitTime)
	notes.AddText("kind", a.Exec.Kind)
	notes.AddBool("timeout", timedOut(a, at))
	*notes = append(*notes, activation.Annotation{Key: "limits", Value: a.Limits.JSON()})
	if !at.initStart.IsZero() {
		facts.InitTime = at.initTime().Milliseconds()
		notes.AddNumber("initTime", facts.InitTime)
	}
	return rec
}

// timedOut tells whether the last exchange took the whole limit.
func timedOut(a *activation.Action, at times) bool {
	took := at.initEnd.Sub(at.initStart)
	if !at.runStart.IsZero() {
		took = at.runEnd.Sub(at.runStart)
	}
	return took >= time.Duration(a.Limits.TimeoutMillis)*time.Millisecond
}

func newRecord(m *activation.Message, version string, r activation.Response, start, end time.Time) *activation.Record {
	duration := end.UnixMilli() - start.UnixMilli()
	var facts activation.Facts
	if m.CausedBySequence() {
		facts.CausedBy = causeSequence
	}
	return &activation.Record{
		Facts:        facts,
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
