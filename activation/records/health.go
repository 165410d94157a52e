package records

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Health is the state of a queue.
type Health struct {
	Writes retry.Condition `json:"writes"`

	BufferedDocs  int             `json:"bufferedDocs"` // unwritten records
	BufferedBytes int             `json:"bufferedBytes"`
	Spooling      bool            `json:"spooling"` // the spool may hold records
	Spool         retry.Condition `json:"spool"`    // state of the spool's disk
	// Refused is the number of records that the store refused or failed on. They stay in
	// memory until the store accepts them or they are given up. Suspects are the oldest
	// of these records.
	Refused  int       `json:"refused"`
	Suspects []Suspect `json:"suspects,omitempty"`
	Records  Stats     `json:"records"`
}

// OK reports whether the last request of each kind succeeded.
func (h Health) OK() bool { return h.Writes.OK() && h.Spool.OK() }

// Suspect is a record that the store may never take.
type Suspect struct {
	Document string    `json:"document"`
	Since    time.Time `json:"since"`
	Error    string    `json:"error"`
}

// maxSuspects limits the suspects in Health.
const maxSuspects = 10

// Health returns the current state.
func (r *Queue) Health() (h Health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.Writes = r.condition
	if h.Writes.OK() {
		h.Writes = r.refusals
	}
	h.Refused = len(r.suspects)
	h.BufferedDocs, h.BufferedBytes = r.unwritten, r.unwrittenBytes
	h.Spool = r.spoolCondition
	for _, s := range r.suspects[:min(len(r.suspects), maxSuspects)] {
		h.Suspects = append(h.Suspects, Suspect{s.doc.ID, s.since, s.err.Error()})
	}
	h.Spooling = r.cfg.Spool != nil && r.spooled
	h.Records = r.stats
	return h
}
