package records

import (
	"cmp"
	"time"
)

// Config is how records are batched and what happens when the store is slow or
// away. Zero values mean the defaults.
type Config struct {
	Requests    int           // at a time; 4
	BatchDocs   int           // at most in a request; 500
	BatchBytes  int           // at most in a request, one document aside; 4 MiB
	BufferDocs  int           // at most not yet written; 20,000
	BufferBytes int           // at most not yet written; 32 MiB
	Linger      time.Duration // longest wait for a fuller batch; 50 ms
	Timeout     time.Duration // of one request; 30 s
	BackoffMin  time.Duration // after a failed request; 100 ms
	BackoffMax  time.Duration // between failing requests; 5 s
	Spool       Spool         // takes records that the buffer cannot; may be nil
	// DeadLetters takes records that the store does not take; may be nil. A record is
	// given up only if others are written meanwhile: after a few refusals, or when writing
	// it failed for DeadAfter, 5 minutes, without being refused.
	DeadLetters DeadLetterStore
	DeadAfter   time.Duration
	// Rejected is called for each record that the database will never take; may
	// be nil. It must not block.
	Rejected func(id string, err error)
}

// Spool keeps records while the database is away. Implementations are safe for
// use by many goroutines.
type Spool interface {
	// Append stores documents; when it returns nil they survive a crash.
	Append(docs []Document) error
	// Peek returns the oldest documents without removing them: at most n, and
	// at most so many bytes unless the first alone has more.
	Peek(n, bytes int) ([]Document, error)
	// Remove forgets the n oldest documents.
	Remove(n int) error
	// Documents is how many there are, those that Append is storing included.
	Documents() int
}

// DeadLetterStore keeps what the database does not take, for a person to look at.
// Implementations are safe for use by many goroutines.
type DeadLetterStore interface {
	Add(doc Document, reason error) error
}

// Document is a record on its way into the database.
type Document struct {
	ID   string
	Body []byte // JSON, with the id in it
	// Stored, when not nil, is called once: with nil when the database or the
	// spool has the document, else with why the database never will; batch is how
	// many documents were in the request that wrote it, 0 where none did. It is
	// not called for a document that Close leaves behind. It must not block.
	Stored func(batch int, err error)

	spooled bool // the spool has it until it is settled
}

// settled calls Stored.
func (d Document) settled(batch int, err error) {
	if d.Stored != nil {
		d.Stored(batch, err)
	}
}

// WithDefaults fills in what is zero. The reasons of the numbers that matter:
// a batch of 64 documents costs CouchDB a tenth of 64 single ones, and at a
// thousand records a second 50 ms gather about that many.
func (c Config) WithDefaults() Config {
	c.Requests = cmp.Or(c.Requests, 4)
	c.BatchDocs = cmp.Or(c.BatchDocs, 500)
	c.BatchBytes = cmp.Or(c.BatchBytes, 4<<20)
	c.BufferDocs = cmp.Or(c.BufferDocs, 20_000)
	c.BufferBytes = cmp.Or(c.BufferBytes, 32<<20)
	c.Linger = cmp.Or(c.Linger, 50*time.Millisecond)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.DeadAfter = cmp.Or(c.DeadAfter, 5*time.Minute)
	c.BackoffMin = cmp.Or(c.BackoffMin, 100*time.Millisecond)
	c.BackoffMax = cmp.Or(c.BackoffMax, 5*time.Second)
	return c
}
