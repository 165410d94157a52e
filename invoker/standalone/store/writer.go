package store

import (
	"errors"

	bolt "go.etcd.io/bbolt"
)

// maxGroup bounds how many requests share one commit. A commit costs two
// flushes of the disk whatever it holds, so requests that arrive while one is
// under way are committed together, and none waits when the store is idle.
const maxGroup = 256

var errClosed = errors.New("store is closed")

// write is a change waiting to be committed. run must only fail on storage
// errors: whatever it refuses (a conflict) it notes in its own result, because
// an error rolls back the changes it shares a commit with.
type write struct {
	run  func(*bolt.Tx) error
	done chan error // buffered, so that the writer never waits for a reader
}

// update commits run and returns when it is on disk.
func (s *Store) update(run func(*bolt.Tx) error) error {
	w := write{run: run, done: make(chan error, 1)}
	select {
	case s.writes <- w:
	case <-s.quit:
		return errClosed
	}
	select {
	case err := <-w.done:
		return err
	case <-s.done:
		// The writer may have answered in its last breath.
		select {
		case err := <-w.done:
			return err
		default:
			return errClosed
		}
	}
}

func (s *Store) commitLoop() {
	defer close(s.done)
	for {
		select {
		case w := <-s.writes:
			s.commit(s.gather(w))
		case <-s.quit:
			s.commitRest()
			return
		}
	}
}

// commitRest commits what was handed over before Close.
func (s *Store) commitRest() {
	for {
		select {
		case w := <-s.writes:
			s.commit(s.gather(w))
		default:
			return
		}
	}
}

func (s *Store) gather(first write) []write {
	group := []write{first}
	for len(group) < maxGroup {
		select {
		case w := <-s.writes:
			group = append(group, w)
		default:
			return group
		}
	}
	return group
}

func (s *Store) commit(group []write) {
	err := s.db.Update(func(tx *bolt.Tx) error {
		for _, w := range group {
			if err := w.run(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && len(group) > 1 {
		// One of them cannot be stored. Alone, each gets its own answer.
		for _, w := range group {
			s.commit([]write{w})
		}
		return
	}
	for _, w := range group {
		w.done <- err
	}
}
