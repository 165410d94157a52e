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

	BufferedDocs  int         `json:"bufferedDocs"` // records not yet written
	BufferedBytes int         `json:"bufferedBytes"`
	Spooling      bool        `json:"spooling"` // the spool may hold records
	Records       RecordStats `json:"records"`
	Cache         CacheStats  `json:"cache"`
}

// OK tells whether the last request of each kind succeeded.
func (h Health) OK() bool { return h.Reads.OK() && h.Writes.OK() && h.Blacklist.OK() }

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
	h.Spooling = r.cfg.Spool != nil && r.spooled
	h.Records = r.stats
}
