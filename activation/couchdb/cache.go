package couchdb

import (
	"container/list"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// CacheStats counts the events of the action cache.
type CacheStats struct {
	Hits    uint64 `json:"hits"`
	Misses  uint64 `json:"misses"`
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"`
}

// cache holds actions by id and revision, with a limit on their bytes and on the time
// since the last use. The least recently used action is dropped first. The owner must
// hold its lock.
type cache struct {
	maxBytes int64
	idle     time.Duration
	order    *list.List // of *entry, most recently used first
	entries  map[key]*list.Element
	stats    CacheStats
}

type entry struct {
	key    key
	action *activation.Action
	size   int64
	used   time.Time
}

func newCache(maxBytes int64, idle time.Duration) *cache {
	return &cache{maxBytes: maxBytes, idle: idle, order: list.New(), entries: map[key]*list.Element{}}
}

func (c *cache) get(k key, now time.Time) (*activation.Action, bool) {
	c.expire(now)
	el, ok := c.entries[k]
	if !ok {
		c.stats.Misses++
		return nil, false
	}
	c.stats.Hits++
	e := el.Value.(*entry)
	e.used = now
	c.order.MoveToFront(el)
	return e.action, true
}

func (c *cache) put(k key, action *activation.Action, size int64, now time.Time) {
	c.expire(now)
	if el, ok := c.entries[k]; ok {
		c.drop(el)
	}
	if size > c.maxBytes {
		return
	}
	c.entries[k] = c.order.PushFront(&entry{k, action, size, now})
	c.stats.Bytes += size
	c.stats.Entries++
	for c.stats.Bytes > c.maxBytes {
		c.drop(c.order.Back())
	}
}

// expire drops actions that have not been used for long. The oldest is at the end of the
// list.
func (c *cache) expire(now time.Time) {
	for el := c.order.Back(); el != nil && now.Sub(el.Value.(*entry).used) >= c.idle; el = c.order.Back() {
		c.drop(el)
	}
}

func (c *cache) drop(el *list.Element) {
	e := el.Value.(*entry)
	c.order.Remove(el)
	delete(c.entries, e.key)
	c.stats.Bytes -= e.size
	c.stats.Entries--
}

// entryOverhead is the approximate size of an entry without its texts.
const entryOverhead = 1024

// sizeOf estimates the memory of an action. The decoder keeps the document and copies of
// its strings. Code from an attachment or bucket is added.
func sizeOf(a *activation.Action, doc []byte) int64 {
	return int64(2*len(doc)+len(a.Exec.Code)) + entryOverhead
}
