package assembly

import (
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
)

func (a *assembly) journal() invoker.Journal {
	if a.state.journal == nil {
		return nil
	}
	return &pullJournal{Journal: a.state.journal}
}

// recall reports a delivered message to the journal and adds the journal's history to the
// delivery. It returns false if the delivery must be dropped, because the journal's copy of
// the message is in progress.
func recall(j *journal.Journal, partition int, d *invoker.Delivery) bool {
	past := j.Delivered(d.Message.ActivationID, partition, d.Offset)
	if past.JournalOwned && past.State != journal.Completed {
		return false
	}
	d.NotJournaled = past.DuplicateID
	d.History = d.Merge(history(j, d.Message.ActivationID, past))
	return true
}

// pullJournal also journals the activations that schedulers hand out.
type pullJournal struct {
	*journal.Journal
	fetched atomic.Int64
}

// forgetEvery is the number of fetches after which the journal forgets the completed
// activations, because no scheduler hands them out again so late. It holds at most this many
// more than necessary.
const forgetEvery = 1000

// AppendFetched stores a fetched message. The time of the fetch takes the place of an offset,
// so the next process runs fetched activations in the order of the fetches.
func (a *pullJournal) AppendFetched(id activation.ID, message []byte) (delivery.History, bool, error) {
	if a.fetched.Add(1)%forgetEvery == 0 {
		a.ForgetBelow(pulledPartition, func(int64) bool { return true })
	}
	past := a.Delivered(id, pulledPartition, time.Now().UnixNano())
	switch {
	case past.DuplicateID || past.JournalOwned && past.State != journal.Completed:
		return delivery.History{}, false, nil
	case past.State == journal.Completed:
		return history(a.Journal, id, past), true, nil
	}
	return history(a.Journal, id, past), true, a.AppendMessage(id, message)
}

// history reads the journal's history of an activation. If the stored end cannot be read, the
// activation counts as running.
func history(j *journal.Journal, id activation.ID, past journal.History) delivery.History {
	h := delivery.History{
		Begun: past.State == journal.Started, Attempts: past.Crashes, Completed: past.State == journal.Completed,
	}
	if past.Unacknowledged && !h.Completed {
		if text, err := j.Result(id); err == nil {
			h.Ended, _ = activation.DecodeRecord(text)
		}
	}
	return h
}

// resumed returns the delivery of an activation that an earlier process left in the journal.
func resumed(j *journal.Journal, l journal.Unfinished) (invoker.Delivery, error) {
	text, past, err := j.LoadUnfinished(l.ID)
	if err != nil {
		return invoker.Delivery{}, err
	}
	m, err := activation.DecodeMessage(text)
	if err != nil {
		return invoker.Delivery{}, err
	}
	return invoker.Delivery{
		Message: m, Offset: l.Offset, Done: func() {}, Fetched: l.Partition == pulledPartition, History: history(j, l.ID, past),
	}, nil
}
