package assembly

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/activation/wal"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/warmth"
)

// state is what outlives the process. What is switched off is nil.
type state struct {
	journal *journal.Journal
	spool   *records.DiskSpool
	dead    *records.DeadLetters
	pinged  pinged
	warm    *warmth.Dir
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
		if a.state.warm, err = warmth.Open(dir, a.Log); err != nil {
			return stateError(err, "whisk.gpu.journal")
		}
	}
	if dir := c.SpoolDir(name); dir != "" {
		// Records that wait are nowhere else: nothing but "none" is less than each.
		if sync != wal.None {
			sync = wal.Each
		}
		a.state.spool, err = records.OpenSpool(records.SpoolConfig{Dir: dir, Bytes: int64(c.SpoolSize), Sync: sync, Log: a.Log})
		if err != nil {
			return stateError(err, "whisk.gpu.records.spool")
		}
	}
	if dir := c.DeadLetterDir(name); dir != "" {
		a.state.dead = &records.DeadLetters{Dir: dir}
	}
	return nil
}

// stateError names the way out.
func stateError(err error, key string) error {
	if errors.Is(err, wal.ErrInUse) {
		return fmt.Errorf("%w (an invoker with the same id runs on this host; if that is meant, whisk.gpu.state names another directory)", err)
	}
	return fmt.Errorf("%w (set whisk.gpu.state to a directory that may be written, or %s to none)", err, key)
}

// into has the store use what is open.
func (s state) into(r *records.Config) {
	if s.spool != nil {
		r.Spool = s.spool
	}
	if s.dead != nil {
		r.Dead = *s.dead
	}
}

func (s state) close() error {
	errs := []error{s.pinged.close()}
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

// stateStatus is what /status shows of it.
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
		h := s.journal.Health()
		out.Journal = &h
	}
	if s.spool != nil {
		out.Spool = &spoolStatus{Records: s.spool.Documents(), Bytes: s.spool.Bytes()}
		if err := s.spool.Trouble(); err != nil {
			out.Spool.Trouble = err.Error()
		}
	}
	if s.dead != nil {
		out.DeadLetters = &deadStatus{s.dead.Dir, s.dead.Count()}
	}
	return out
}

func (a *assembly) account() invoker.Journal {
	if a.state.journal == nil {
		return journal.None{}
	}
	return &account{Journal: a.state.journal, feed: a.feed}
}

// shelf is where messages wait that need not be in memory; nil without a
// journal.
func (a *assembly) shelf() invoker.Shelf {
	if a.state.journal == nil {
		return nil
	}
	return a.state.journal
}

// account tells the journal, and has it forget what Kafka will not deliver
// again.
type account struct {
	*journal.Journal
	feed      *kafka.Feed
	completed atomic.Int64
}

// forgetEvery is after how many completions the journal is told the committed
// position: it holds so many more activations than it must.
const forgetEvery = 1000

// Completed tells the journal.
func (a *account) Completed(id activation.ID) {
	a.Journal.Completed(id)
	if a.completed.Add(1)%forgetEvery == 0 {
		stats := a.feed.Stats()
		for _, p := range append(stats.Partitions, kafka.PartitionStats{Committed: stats.Committed}) {
			a.Covered(int(p.Partition), func(offset int64) bool { return offset < p.Committed })
		}
	}
}
