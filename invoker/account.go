package invoker

import (
	"encoding/json"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/explain"
)

// An activation's account (package explain) lies in its ticket, and whoever has
// the ticket writes to it. It is nil where none is kept.

// Explain gives the accounts of the last activations, nil when none are kept.
func (iv *Invoker) Explain() *explain.Log { return iv.desk.explain }

// open begins the account of an accepted activation.
func (d *desk) open(t *ticket) {
	if d.explain == nil && d.tracer == nil {
		return
	}
	t.account = &explain.Account{
		ID: string(t.ActivationID), Namespace: t.User.Namespace.Name, Action: t.Action.FQN(), Accepted: d.at(t.accepted),
	}
	if ms := t.TransID.StartMillis(); ms > 0 {
		t.account.Sent = time.UnixMilli(ms)
	}
}

// shut ends an account: everything that left the ticket is safe.
func (d *desk) shut(t *ticket) {
	if t.account != nil {
		t.account.Filed = d.wall()
		d.explain.Add(t.account)
		if d.tracer != nil {
			d.tracer.Ended(t.account, t.TraceContext)
		}
	}
}

// answered notes how a ticket was completed.
func (d *desk) answered(t *ticket, e ending) {
	a := t.account
	if a == nil {
		return
	}
	a.Answered, a.Status = d.wall(), e.record.Response.StatusCode
	a.Recorded = !e.silent && d.store.keeps(t.Message, e.record.Response)
}

// acked notes that the broker has the last ack of a ticket, stored that the store
// has its record, which is one of a batch, or refused it. Each is called once, before the ticket
// is settled.
func (d *desk) acked(t *ticket, kind activation.AckKind) {
	if t.account != nil && kind != activation.Result {
		t.account.Acked = d.wall()
	}
}

func (d *desk) stored(t *ticket, batch int, err error) {
	if a := t.account; a != nil {
		a.Stored, a.Batch = d.wall(), batch
		if err != nil {
			a.Batch = explain.NoBatch
		}
	}
}

// refused notes why an activation never reached a container.
func (t *ticket) refused(r activation.Response) {
	if t.account == nil {
		return
	}
	var text struct {
		Error string `json:"error"`
	}
	if t.account.Refused = "it was refused."; json.Unmarshal(r.Result, &text) == nil && text.Error != "" {
		t.account.Refused = text.Error
	}
}

// stood notes that a job stands in a queue, the first time.
func (j *job) stood(now time.Duration) {
	if a := j.account; a != nil && a.Queued.IsZero() {
		a.Queued, a.Kind = j.desk.at(now), j.action.Exec.Kind
	}
}

// placed notes that a job has its container, or its token.
func (j *job) placed(now time.Duration, start, container string) {
	if a := j.account; a != nil {
		a.Granted, a.Start, a.Container = j.desk.at(now), start, container
	}
}

// ran notes what a worker saw of a run.
func (r *run) ran(now time.Duration) {
	a := r.account
	if a == nil {
		return
	}
	a.InitStart, a.InitEnd = r.at.initStart, r.at.initEnd
	a.RunStart, a.RunEnd = r.at.runStart, r.at.runEnd
	a.TimedOut = timedOut(r.action, r.at)
	if g := r.grant; g != nil && a.GPU != nil {
		a.GPU.Moved, a.GPU.Memory = g.transfer.time(now), g.memory.Load()
		if g.transfer != nil {
			a.GPU.MoveStart = r.desk.at(g.transfer.began)
		}
	}
}
