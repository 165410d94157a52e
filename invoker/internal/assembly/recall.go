package assembly

import (
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
)

func (a *assembly) journal() invoker.Journal {
	if a.state.journal == nil {
		return nil
	}
	return &forgetfulJournal{Journal: a.state.journal, covered: a.intake.covered}
}

// forgetfulJournal writes to the journal and makes it forget activations that Kafka will not
// deliver again.
type forgetfulJournal struct {
	*journal.Journal
	covered   func(*journal.Journal)
	completed atomic.Int64
}

// forgetEvery is the number of completions after which the journal gets the committed offsets.
// The journal holds at most this many activations more than necessary.
const forgetEvery = 1000

// Completed writes that an activation is completed, and makes the journal forget old ones now
// and then.
func (a *forgetfulJournal) Completed(id activation.ID) {
	a.Journal.Completed(id)
	if a.completed.Add(1)%forgetEvery == 0 {
		a.covered(a.Journal)
	}
}

func (a *classic) covered(j *journal.Journal) {
	stats := a.feed.Stats()
	for _, p := range append(stats.Partitions, kafka.PartitionStats{Committed: stats.Committed}) {
		j.ForgetBelow(int(p.Partition), func(offset int64) bool { return offset < p.Committed })
	}
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

// AppendFetched stores a fetched message. The time of the fetch takes the place of an offset,
// so the next process runs fetched activations in the order of the fetches.
func (a *forgetfulJournal) AppendFetched(id activation.ID, message []byte) (delivery.History, bool, error) {
	past := a.Delivered(id, pulledPartition, time.Now().UnixNano())
	switch {
	case past.DuplicateID || past.JournalOwned && past.State != journal.Completed:
		return delivery.History{}, false, nil
	case past.State == journal.Completed:
		return history(a.Journal, id, past), true, nil
	}
	return history(a.Journal, id, past), true, a.AppendMessage(id, message)
}

// history reads the journal's history of an activation.
func history(j *journal.Journal, id activation.ID, past journal.History) delivery.History {
	return delivery.History{
		Begun: past.State == journal.Started, Attempts: past.Crashes, Completed: past.State == journal.Completed,
		Ended: ended(j, id, past),
	}
}

// ended returns the record with which an earlier process ended an activation, or nil if there
// is none. Some acks of that end, or the record, may not have been sent.
func ended(j *journal.Journal, id activation.ID, past journal.History) *activation.Record {
	if !past.Unacknowledged || past.State == journal.Completed {
		return nil
	}
	text, err := j.Result(id)
	if err != nil {
		return nil // it counts as an activation that was running
	}
	r, err := activation.DecodeRecord(text)
	if err != nil {
		return nil
	}
	return r
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
