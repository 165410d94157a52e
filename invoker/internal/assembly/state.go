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
		m.gauge("journal_bytes", "Bytes of the journal's files.", float64(j.Bytes))
		m.gauge("journal_message_bytes", "Bytes of messages in the journal, from activations that schedulers handed over.", float64(j.MessageBytes))
	}
}

// besideJournal returns the path of a file in the journal's directory, "" without a journal.
func (a *assembly) besideJournal(name string) string {
	if a.state.journal == nil {
		return ""
	}
	return filepath.Join(a.c.State.JournalDir(a.instance.Topic()), name)
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
