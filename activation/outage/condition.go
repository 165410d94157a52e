package outage

import (
	"log/slog"
	"time"
)

// Condition is the state of one kind of request, and logs each change of it
// once. The zero value is that all is well. Its owner locks.
type Condition struct {
	LastError string    `json:"lastError,omitzero"` // empty while it works
	Since     time.Time `json:"since,omitzero"`     // when it began to fail
}

// OK tells whether it works.
func (c Condition) OK() bool { return c.LastError == "" }

// Fail notes a failure; the first since it worked goes to the log.
func (c *Condition) Fail(log *slog.Logger, text string, err error) {
	if c.OK() {
		c.Since = time.Now()
		log.Warn(text, "error", err)
	}
	c.LastError = err.Error()
}

// Works notes that it works; the first time since a failure goes to the log.
func (c *Condition) Works(log *slog.Logger, text string) {
	if !c.OK() {
		log.Info(text, "after", time.Since(c.Since).Round(time.Millisecond))
	}
	*c = Condition{}
}
