package records

import (
	"cmp"
	"time"
)

// Config sets how records are batched, and the behaviour when the store is slow or
// unreachable. Zero values mean the defaults.
type Config struct {
	Requests    int           // at a time; default 4
	BatchDocs   int           // most in a request; default 500
	BatchBytes  int           // most in a request, except for a single document; default 4 MiB
	BufferDocs  int           // most unwritten; default 20,000
	BufferBytes int           // most unwritten; default 32 MiB
	Linger      time.Duration // longest wait for a fuller batch; default 50 ms
	Timeout     time.Duration // of one request; default 30 s
	BackoffMin  time.Duration // after a failed request; default 100 ms
	BackoffMax  time.Duration // between failing requests; default 5 s
	Spool       Spool         // takes records that do not fit into the buffer; may be nil
	// DeadLetters stores records that the store does not accept. It may be nil. A record
	// is given up only if the store accepts others meanwhile: after a few refusals, or
	// if its writes fail without a refusal for DeadAfter, default 5 minutes.
	DeadLetters DeadLetterStore
	DeadAfter   time.Duration
	// Rejected is called for each record that is given up. It may be nil, and must not
	// block.
	Rejected func(id string, err error)
}

// Spool stores records while the database is unreachable. Implementations are safe for
// concurrent use.
type Spool interface {
	// Append stores documents. After it returns nil, they survive a crash.
	Append(docs []Document) error
	// Peek returns the oldest documents without removing them: at most n, and at most
	// the given number of bytes, except for a single larger document.
	Peek(n, bytes int) ([]Document, error)
	// Remove removes the n oldest documents.
	Remove(n int) error
	// Documents returns the number of documents, including those that Append is still
	// storing.
	Documents() int
}

// DeadLetterStore stores records that the database does not accept, so that a person can
// look at them. Implementations are safe for concurrent use.
type DeadLetterStore interface {
	Add(doc Document, reason error) error
}

// Document is a record to be written to the database.
type Document struct {
	ID   string
	Body []byte // JSON, contains the id
	// Stored is called once, unless it is nil: with a nil error when the database or the
	// spool has the document, otherwise with the reason why the document was given up.
	// batch is the number of documents in the request that wrote it, 0 without such a
	// request. Stored is not called for a document that Close leaves behind. It must not
	// block.
	Stored func(batch int, err error)

	spooled bool // the spool has it until it is settled
}

// settled calls Stored.
func (d Document) settled(batch int, err error) {
	if d.Stored != nil {
		d.Stored(batch, err)
	}
}

// withDefaults replaces zero values by the defaults. The reasons for two of these: a
// batch of 64 documents costs CouchDB a tenth of 64 single ones, and at a thousand
// records a second about that many arrive in 50 ms.
func (c Config) withDefaults() Config {
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
