package assembly

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/statefile"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// state has the files that outlive the process. A disabled part is nil.
type state struct {
	journal *journal.Journal
	spool   *records.DiskSpool
	dead    *records.DeadLetterDir
	warm    *statefile.Dir
}

// openState opens the directories that the configuration names.
func (a *assembly) openState() (err error) {
	c, name := a.c.State, a.instance.Topic()
	sync, err := wal.ParseSync(c.JournalSync)
	if err != nil {
		return err
	}
	if dir := c.JournalDir(name); dir != "" {
		a.state.journal, err = journal.Open(journal.Config{Dir: dir, Sync: sync, Bytes: int64(c.JournalSize), Log: a.Log})
		if err != nil {
			return stateError(err, "whisk.gpu.journal")
		}
	}
	if dir := c.WarmDir(name); dir != "" {
		if a.state.warm, err = statefile.Open(dir, a.Log); err != nil {
			return stateError(err, "whisk.gpu.journal")
		}
	}
	if dir := c.SpoolDir(name); dir != "" {
		// Records that wait are nowhere else: each is synced, unless none is.
		if sync != wal.SyncNone {
			sync = wal.SyncEach
		}
		a.state.spool, err = records.OpenSpool(records.SpoolConfig{Dir: dir, Bytes: int64(c.SpoolSize), Sync: sync, Log: a.Log})
		if err != nil {
			return stateError(err, "whisk.gpu.records.spool")
		}
	}
	if dir := c.DeadLetterDir(name); dir != "" {
		a.state.dead = &records.DeadLetterDir{Dir: dir}
	}
	return nil
}

// stateError adds the key to change to an error.
func stateError(err error, key string) error {
	if errors.Is(err, wal.ErrInUse) {
		return fmt.Errorf("%w (an invoker with the same id runs on this host; if that is meant, whisk.gpu.state names another directory)", err)
	}
	return fmt.Errorf("%w (set whisk.gpu.state to a directory that may be written, or %s to none)", err, key)
}

// into sets the directories that are open.
func (s state) into(r *records.Config) {
	if s.spool != nil {
		r.Spool = s.spool
	}
	if s.dead != nil {
		r.DeadLetters = *s.dead
	}
}

func (s state) close() error {
	var errs []error
	if s.warm != nil {
		errs = append(errs, s.warm.Close())
	}
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	if s.spool != nil {
		errs = append(errs, s.spool.Close())
	}
	return errors.Join(errs...)
}

// stateStatus is the part of /status about these files.
type stateStatus struct {
	Journal     *journal.Health `json:"journal,omitempty"`
	Spool       *spoolStatus    `json:"spool,omitempty"`
	DeadLetters *deadStatus     `json:"deadLetters,omitempty"`
}

type spoolStatus struct {
	Records int    `json:"records"`
	Bytes   int64  `json:"bytes"`
	Trouble string `json:"trouble,omitzero"`
}

type deadStatus struct {
	Dir     string `json:"dir"`
	Records int    `json:"records"`
}

func (s state) status() (out stateStatus) {
	if s.journal != nil {
		out.Journal = new(s.journal.Health())
	}
	if s.spool != nil {
		out.Spool = &spoolStatus{Records: s.spool.Documents(), Bytes: s.spool.Bytes()}
		if err := s.spool.Err(); err != nil {
			out.Spool.Trouble = err.Error()
		}
	}
	if s.dead != nil {
		out.DeadLetters = &deadStatus{s.dead.Dir, s.dead.Count()}
	}
	return out
}

func (a *assembly) stateStatus(s *status) {
	s.State = a.state.status()
	if j := s.State.Journal; j != nil {
		s.because("writing the journal", j.Trouble)
	}
}

func stateGauges(s *status, m sink) {
	if j := s.State.Journal; j != nil {
		m.gauge("journal_bytes", "Size of the journal's files.", float64(j.Bytes))
		m.gauge("journal_message_bytes", "Messages in the journal, of activations that schedulers handed over.", float64(j.MessageBytes))
	}
}

func (a *assembly) journal() invoker.Journal {
	if a.state.journal == nil {
		return nil
	}
	return &forgetfulJournal{Journal: a.state.journal, covered: a.intake.covered}
}

// besideJournal returns the path of a file in the journal's directory, "" without a journal.
func (a *assembly) besideJournal(name string) string {
	if a.state.journal == nil {
		return ""
	}
	return filepath.Join(a.c.State.JournalDir(a.instance.Topic()), name)
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

func (a classic) covered(j *journal.Journal) {
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

// containerStates are the state files of containers for the next process, nil
// where none is handed over.
func (a *assembly) containerStates() invoker.ContainerStates {
	if a.state.warm == nil || !a.c.Drain.Handover {
		return nil
	}
	return a.state.warm
}

// handoverExpected reports whether warm containers are left at the stop.
func (a *assembly) handoverExpected() bool {
	return a.c.Drain.Handover && a.Terminated != nil && a.Terminated() && !a.retired.Load()
}
