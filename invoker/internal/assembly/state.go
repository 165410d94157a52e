package assembly

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/statefile"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// state has the files that outlive the process. A disabled part is nil.
type state struct {
	*base
	journal *journal.Journal
	spool   *records.DiskSpool
	dead    *records.DeadLetterDir
	warm    *statefile.Dir
}

// open opens the directories that the configuration names.
func (st *state) open() (err error) {
	c, name := st.c.State, st.instance.Topic()
	sync, err := wal.ParseSync(c.JournalSync)
	if err != nil {
		return err
	}
	if dir := c.JournalDir(name); dir != "" {
		st.journal, err = journal.Open(journal.Config{Dir: dir, Sync: sync, Bytes: int64(c.JournalSize), Log: st.Log})
		if err != nil {
			return stateError(err, "whisk.gpu.journal")
		}
	}
	if dir := c.WarmDir(name); dir != "" {
		if st.warm, err = statefile.Open(dir, st.Log); err != nil {
			return stateError(err, "whisk.gpu.journal")
		}
	}
	if dir := c.SpoolDir(name); dir != "" {
		// Records that wait are nowhere else: each is synced, unless none is.
		if sync != wal.SyncNone {
			sync = wal.SyncEach
		}
		st.spool, err = records.OpenSpool(records.SpoolConfig{Dir: dir, Bytes: int64(c.SpoolSize), Sync: sync, Log: st.Log})
		if err != nil {
			return stateError(err, "whisk.gpu.records.spool")
		}
	}
	if dir := c.DeadLetterDir(name); dir != "" {
		st.dead = &records.DeadLetterDir{Dir: dir}
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
func (st *state) into(r *records.Config) {
	if st.spool != nil {
		r.Spool = st.spool
	}
	if st.dead != nil {
		r.DeadLetters = *st.dead
	}
}

func (st *state) close() error {
	var errs []error
	if st.warm != nil {
		errs = append(errs, st.warm.Close())
	}
	if st.journal != nil {
		errs = append(errs, st.journal.Close())
	}
	if st.spool != nil {
		errs = append(errs, st.spool.Close())
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

func (st *state) status() (out stateStatus) {
	if st.journal != nil {
		out.Journal = new(st.journal.Health())
	}
	if st.spool != nil {
		out.Spool = &spoolStatus{Records: st.spool.Documents(), Bytes: st.spool.Bytes()}
		if err := st.spool.Err(); err != nil {
			out.Spool.Trouble = err.Error()
		}
	}
	if st.dead != nil {
		out.DeadLetters = &deadStatus{st.dead.Dir, st.dead.Count()}
	}
	return out
}

func (st *state) addStatus(s *status) {
	s.State = st.status()
	if j := s.State.Journal; j != nil {
		s.because("writing the journal", j.Trouble)
	}
}

func stateGauges(s *status, m sink) {
	if j := s.State.Journal; j != nil {
		m.gauge("journal_bytes", "Bytes of the journal's files.", float64(j.Bytes))
		m.gauge("journal_message_bytes", "Bytes of messages in the journal, from activations that schedulers handed over.", float64(j.MessageBytes))
	}
}

// besideJournal returns the path of a file in the journal's directory, "" without a journal.
func (st *state) besideJournal(name string) string {
	if st.journal == nil {
		return ""
	}
	return filepath.Join(st.c.State.JournalDir(st.instance.Topic()), name)
}

// containerStates are the state files of containers for the next process, nil
// where none is handed over.
func (st *state) containerStates() invoker.ContainerStates {
	if st.warm == nil || !st.c.Drain.Handover {
		return nil
	}
	return st.warm
}

// handoverExpected reports whether warm containers are left at the stop.
func (b *base) handoverExpected() bool {
	return b.c.Drain.Handover && b.Terminated != nil && b.Terminated() && !b.retired.Load()
}
