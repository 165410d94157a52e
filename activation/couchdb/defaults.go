package couchdb

import (
	"cmp"
	"log/slog"
	"time"
)

// withDefaults fills in what is zero. The reasons of the numbers that matter:
// a batch of 64 documents costs CouchDB a tenth of 64 single ones, and at a
// thousand records a second 50 ms gather about that many.
func (c Config) withDefaults() Config {
	c.BlacklistInterval = cmp.Or(c.BlacklistInterval, 5*time.Minute)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 30*time.Second)
	c.CacheBytes = cmp.Or(c.CacheBytes, 64<<20)
	c.CacheIdle = cmp.Or(c.CacheIdle, 5*time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Records = c.Records.withDefaults()
	return c
}

func (c RecordsConfig) withDefaults() RecordsConfig {
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
