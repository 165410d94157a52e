package couchdb

import (
	"github.com/gpuwhisk/gpuwhisk/activation/outage"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
)

// Health tells how the database does.
type Health struct {
	Reads     outage.Condition `json:"reads"` // of actions
	Blacklist outage.Condition `json:"blacklist"`
	records.Health
	Cache CacheStats `json:"cache"`
}

// OK tells whether the last request of each kind succeeded.
func (h Health) OK() bool {
	return h.Reads.OK() && h.Blacklist.OK() && h.Health.OK()
}

// Health returns a snapshot.
func (s *Store) Health() Health {
	h := Health{Health: s.records.Health()}
	s.actions.health(&h)
	h.Blacklist = s.blacklist.health()
	return h
}
