package invoker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// owed lists the tickets that are answered and whose acks and record are not all
// safe. The journal is given the end of those that stay on it: the activation is
// delivered again should this process end, and the next one must not tell another
// end of it than what its record, or an ack, says already.
type owed struct {
	mu      sync.Mutex
	all     map[*ticket]debt
	failing atomic.Bool // the journal did not take the last ones
}

// debt is what is known of a ticket on the list.
type debt struct {
	looks uint8
	kept  stage // at which the journal was given its end: nowhere, answered or filed
}

// An ack takes milliseconds and a record some hundred at most when all is well.
// Nothing is written then. What is not safe after so many looks, the journal is
// given: were the process killed, it would otherwise be said to have been
// interrupted.
const (
	owedLook       = 100 * time.Millisecond
	looksForAck    = 2
	looksForRecord = 10
	// oweTogether bounds the records in memory at once.
	oweTogether = 64
)

// add lists a ticket, unless the next process can tell nothing of it or comes to
// the same end by itself.
func (o *owed) add(t *ticket, e ending) {
	if t.unlisted || e.silent {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[*ticket]debt{}
	}
	o.all[t] = debt{}
}

func (o *owed) remove(t *ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, t)
}

// look counts a look at each ticket, and lists those of which the journal does
// not know how they ended though it is time; with all, whatever the time is.
func (o *owed) look(all bool) (late []*ticket) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for t, d := range o.all {
		d.looks = min(d.looks+1, looksForRecord)
		o.all[t] = d
		due := d.looks >= looksForRecord || d.looks >= looksForAck && t.unsent.Load() > 0
		if at, _ := t.ended(); (due || all) && d.kept != at {
			late = append(late, t)
		}
	}
	return late
}

// note notes that the journal was given an end, and tells whether the ticket is
// still on the list.
func (o *owed) note(t *ticket, at stage, kept bool) (listed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, listed := o.all[t]
	if listed && kept {
		d.kept = at
		o.all[t] = d
	}
	return listed
}

// ended gives what a ticket ended with, and how far it has come since.
func (t *ticket) ended() (stage, *activation.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stage, t.ending.record
}

// watchOwed has the journal keep what is owed for long, until nothing more is
// sent.
func (d *desk) watchOwed(ctx context.Context) {
	tick := time.NewTicker(owedLook)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.owe(d.owed.look(false))
		case <-ctx.Done():
			return
		}
	}
}

// keepOwed has the journal keep all that is owed. It is called when nothing more
// is sent.
func (d *desk) keepOwed() { d.owe(d.owed.look(true)) }

func (d *desk) owe(all []*ticket) {
	var failed int
	var why error
	for len(all) > 0 {
		some := all[:min(len(all), oweTogether)]
		all = all[len(some):]
		stages, ids, docs := make([]stage, len(some)), make([]activation.ID, len(some)), make([][]byte, len(some))
		for i, t := range some {
			at, rec := t.ended()
			stages[i], ids[i], docs[i] = at, t.ActivationID, rec.Document(d.wall().UnixMilli())
		}
		for i, err := range d.journal.Owe(ids, docs) {
			if d.owed.note(some[i], stages[i], err == nil) && err != nil {
				failed, why = failed+1, err
			}
		}
	}
	if was := d.owed.failing.Swap(failed > 0); failed > 0 && !was {
		d.log.Error("what activations ended with is not kept for the next process", "activations", failed, "error", why)
	}
}

// tellAgain tells how an activation ended in an earlier process. It is known to
// whoever had heard it, and a record that is stored already stays as it is.
func (iv *Invoker) tellAgain(t *ticket, r *activation.Record) {
	iv.log.Info("the end of an activation in an earlier process is told again", keyActivation, t.ActivationID, keyAction, t.Action.FQN(), "status", r.Response.StatusCode)
	iv.metrics.interrupted.WithLabelValues("told").Inc()
	if t.account != nil {
		t.account.Refused = "it had ended in an earlier process, which could not tell everybody; that was told now."
	}
	iv.desk.complete(t, ending{record: r, whole: true, former: true, again: true})
}
