package records

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// others enqueues n documents, one a second.
func others(t *testing.T, r *Queue, from, n int) {
	t.Helper()
	for i := range n {
		put(t, r, doc(from+i))
		time.Sleep(time.Second)
		synctest.Wait()
	}
}

// all returns a refuse function that answers every document with err.
func all(err error) func(string) error { return func(string) error { return err } }

var errForbidden = Classify(errors.New("forbidden: no records today"), ErrRefused)

// refusals lists the possible answers to a document in a successful request.
var refusals = map[string]error{
	"forbidden": errForbidden,
	"timeout":   errors.New("timeout: the shard did not answer"),
}

// TestStoreThatRefusesAllGivesUpNone: while the store answers but refuses every
// document, all documents are kept, in the spool if there is one. After it accepts
// documents again, all are written.
func TestStoreThatRefusesAllGivesUpNone(t *testing.T) {
	for name, refusal := range refusals {
		for _, batch := range []int{1, 100} {
			for _, spool := range []*memorySpool{nil, {}} {
				t.Run(fmt.Sprintf("%s, batches of %d, spool %t", name, batch, spool != nil), func(t *testing.T) {
					d := newDatabase()
					dead := &deadLetters{}
					cfg := Config{DeadLetters: dead, BatchDocs: batch}
					if spool != nil {
						cfg.Spool = spool
					}
					bubble(t, cfg, d, func(t *testing.T, r *Queue) {
						others(t, r, 0, 20)
						d.set(func() { d.refuse = all(refusal) })
						for i := range 3600 {
							put(t, r, doc(100+i))
							time.Sleep(time.Second)
						}
						h := r.Health()
						check.That(t, !h.OK(), "healthy: %+v", h)
						check.Contains(t, h.Writes.LastError, "every record is refused: "+refusal.Error())
						check.Equal(t, d.count(), 20)
						if spool != nil {
							check.AtMost(t, h.BufferedDocs, maxRefused+2*batch)
							check.That(t, !r.Full(), "health %+v", h)
						}
						d.set(func() { d.refuse = nil })
						time.Sleep(time.Minute)
						flush(t, r)
						check.Equal(t, d.count(), 3620)
						check.Equal(t, len(dead.list()), 0)
						h = r.Health()
						check.That(t, h.OK(), "health %+v", h)
						check.Equal(t, h.Refused, 0)
						if spool != nil {
							check.Equal(t, spool.Documents(), 0)
						}
					})
				})
			}
		}
	}
}

// TestOneRefusedDocumentWaitsForOthers: a store that refuses the only document may
// refuse all documents. The document is given up only after others are written.
func TestOneRefusedDocumentWaitsForOthers(t *testing.T) {
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			d := newDatabase()
			d.refuse = func(id string) error {
				if id == doc(0).ID {
					return refusal
				}
				return nil
			}
			dead, spool := &deadLetters{}, &memorySpool{}
			bubble(t, Config{DeadLetters: dead, Spool: spool}, d, func(t *testing.T, r *Queue) {
				put(t, r, doc(0))
				time.Sleep(time.Hour)
				check.Equal(t, len(dead.list()), 0, "alone for an hour")
				check.Contains(t, r.Health().Writes.LastError, refusal.Error())
				others(t, r, 1, 100)
				check.EqualSlices(t, dead.list(), []string{doc(0).ID})
				check.Equal(t, d.count(), 100)
				check.That(t, r.Health().OK(), "health %+v", r.Health())
			})
		})
	}
}

// TestRefusedNamespaceDelaysNoOther: a design document may refuse the records of a
// single namespace. These records are given up within a minute, and others are written
// at once.
func TestRefusedNamespaceDelaysNoOther(t *testing.T) {
	d := newDatabase()
	d.refuse = func(id string) error {
		if strings.HasPrefix(id, "refused/") {
			return errForbidden
		}
		return nil
	}
	dead, spool := &deadLetters{}, &memorySpool{}
	bubble(t, Config{DeadLetters: dead, Spool: spool}, d, func(t *testing.T, r *Queue) {
		for i := range 2000 {
			bad := doc(i)
			bad.ID = strings.Replace(bad.ID, "guest/", "refused/", 1)
			put(t, r, bad)
			if i%10 == 0 {
				put(t, r, doc(i))
			}
			time.Sleep(50 * time.Millisecond)
			if i%10 == 5 { // 0.3 s later
				check.Equal(t, d.count(), i/10+1, "written")
			}
		}
		check.AtMost(t, r.Health().BufferedDocs, 1200)
		check.Equal(t, r.Health().Records.Spooled, 0)
		others(t, r, 5000, 60)
		check.Equal(t, len(dead.list()), 2000)
		check.That(t, r.Health().OK(), "health %+v", r.Health())
	})
}

// TestStoreThatRefusesInTurnsGivesUpNone: if a store alternates between accepting all
// and refusing all documents, by the second or by the request, no document is given up.
func TestStoreThatRefusesInTurnsGivesUpNone(t *testing.T) {
	for name, period := range map[string]time.Duration{"3 s": 3 * time.Second, "20 s": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase()
			began := time.Now()
			dead := &deadLetters{}
			bubble(t, Config{DeadLetters: dead}, d, func(t *testing.T, r *Queue) {
				began = time.Now()
				d.set(func() {
					d.refuse = func(string) error {
						if time.Since(began)/period%2 == 0 {
							return errForbidden
						}
						return nil
					}
				})
				others(t, r, 0, 1800)
				d.set(func() { d.refuse = nil })
				time.Sleep(time.Minute)
				check.Equal(t, len(dead.list()), 0)
				check.Equal(t, d.count(), 1800)
			})
		})
	}
}

// TestRefusedSpoolOfAnEarlierProcess: refused documents in the spool are not given up
// either, and a flush leaves those in memory to the spool.
func TestRefusedSpoolOfAnEarlierProcess(t *testing.T) {
	d := newDatabase()
	d.refuse = all(errForbidden)
	dead, spool := &deadLetters{}, &memorySpool{}
	for i := range 30 {
		spool.docs = append(spool.docs, doc(i))
	}
	bubble(t, Config{DeadLetters: dead, Spool: spool, BatchDocs: 10}, d, func(t *testing.T, r *Queue) {
		time.Sleep(time.Minute)
		check.That(t, !r.Health().OK(), "health %+v", r.Health())
		others(t, r, 100, 20)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		check.NoError(t, r.Flush(ctx))
		check.Equal(t, spool.Documents(), 50)
		check.Equal(t, r.Health().BufferedDocs, 0)
		time.Sleep(time.Hour)
		check.Equal(t, len(dead.list()), 0)
		d.set(func() { d.refuse = nil })
		time.Sleep(time.Minute)
		check.Equal(t, d.count(), 50)
		check.Equal(t, spool.Documents(), 0)
		check.That(t, r.Health().OK(), "health %+v", r.Health())
	})
}

// TestCloseKeepsRefusedDocuments: without a spool, refused documents become dead letters
// in Close.
func TestCloseKeepsRefusedDocuments(t *testing.T) {
	d := newDatabase()
	d.refuse = all(errForbidden)
	dead := &deadLetters{}
	bubble(t, Config{DeadLetters: dead}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0), doc(1))
		time.Sleep(time.Second)
		check.NoError(t, r.close())
		check.EqualSlices(t, dead.list(), []string{doc(0).ID, doc(1).ID})
	})
}
