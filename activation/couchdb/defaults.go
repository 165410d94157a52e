package couchdb

import (
	"cmp"
	"log/slog"
	"time"
)

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	c.BlacklistInterval = cmp.Or(c.BlacklistInterval, 5*time.Minute)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 30*time.Second)
	c.CacheBytes = cmp.Or(c.CacheBytes, 64<<20)
	c.CacheIdle = cmp.Or(c.CacheIdle, 5*time.Minute)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
