package couchdb

import (
	"log/slog"
	"time"
)

// Health tells how the database does.
type Health struct {
	Reads     Condition `json:"reads"`  // of actions
	Writes    Condition `json:"writes"` // of records
	Blacklist Condition `json:"blacklist"`

	BufferedDocs  int       `json:"bufferedDocs"` // records not yet written
	BufferedBytes int       `json:"bufferedBytes"`
	Spooling      bool      `json:"spooling"` // the spool may hold records
	Spool         Condition `json:"spool"`    // of its disk
	// Suspects are records that make the requests fail that they are in.
	Suspects []Suspect   `json:"suspects,omitempty"`
	Records  RecordStats `json:"records"`
	Cache    CacheStats  `json:"cache"`
}

// OK tells whether the last request of each kind succeeded.
func (h Health) OK() bool {
	return h.Reads.OK() && h.Writes.OK() && h.Blacklist.OK() && h.Spool.OK()
}

// Suspect is a record that the database may never take.
type Suspect struct {
	Document string    `json:"document"`
	Since    time.Time `json:"since"`
	Error    string    `json:"error"`
}

// toldSuspects bounds how many of them are told.
const toldSuspects = 10

// Condition is the state of one kind of request.
type Condition struct {
	LastError string    `json:"lastError,omitzero"` // empty while it works
	Since     time.Time `json:"since,omitzero"`     // when it began to fail
}

// OK tells whether it works.
func (c Condition) OK() bool { return c.LastError == "" }

// condition keeps a Condition and logs each change once. Its owner locks.
type condition struct{ now Condition }

func (c *condition) failing() bool { return !c.now.OK() }

func (c *condition) fail(log *slog.Logger, text string, err error) {
	if !c.failing() {
		c.now.Since = time.Now()
		log.Warn(text, "error", err)
	}
	c.now.LastError = err.Error()
}

func (c *condition) ok(log *slog.Logger, text string) {
	if c.failing() {
		log.Info(text, "after", time.Since(c.now.Since).Round(time.Millisecond))
	}
	c.now = Condition{}
}

// Health returns a snapshot.
func (s *Store) Health() Health {
	var h Health
	s.records.health(&h)
	s.actions.health(&h)
	h.Blacklist = s.blacklist.health()
	return h
}

func (r *records) health(h *Health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.Writes = r.condition.now
	h.BufferedDocs, h.BufferedBytes = r.held, r.heldBytes
	h.Spool = r.spoolCondition.now
	for _, s := range r.suspects[:min(len(r.suspects), toldSuspects)] {
		h.Suspects = append(h.Suspects, Suspect{s.doc.ID, s.since, s.err.Error()})
	}
	h.Spooling = r.cfg.Spool != nil && r.spooled
	h.Records = r.stats
}
