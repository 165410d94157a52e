package store

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// The buckets of a database. The sequence number of the documents' bucket and
// of each index counts its living entries, which bbolt cannot count cheaply.
var (
	bucketDocs  = []byte("docs")
	bucketBlobs = []byte("blobs")
	bucketViews = []byte("views")
)

// open finds a database; nil when there is none of that name.
func open(tx *bolt.Tx, name string) *database {
	root := tx.Bucket([]byte(name))
	if root == nil {
		return nil
	}
	return &database{tx: tx, root: root, docs: root.Bucket(bucketDocs), blobs: root.Bucket(bucketBlobs)}
}

func create(tx *bolt.Tx, name string) error {
	root, err := tx.CreateBucket([]byte(name))
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	for _, b := range [][]byte{bucketDocs, bucketBlobs, bucketViews} {
		if _, err := root.CreateBucket(b); err != nil {
			return fmt.Errorf("create database %s: %w", name, err)
		}
	}
	return nil
}

// record reads a document or tombstone; nil when there never was one.
func (db *database) record(id string) (*record, error) {
	raw := db.docs.Get([]byte(id))
	if raw == nil {
		return nil, nil
	}
	r, err := decodeRecord(raw)
	if err != nil {
		return nil, fmt.Errorf("read document %s: %w", id, err)
	}
	return r, nil
}

// replace writes a record over old (nil for none) and keeps counters, indexes
// and attachment contents in step.
func (db *database) replace(id string, old, next *record) error {
	oldAlive := old != nil && !old.deleted()
	if err := count(db.docs, alive(!next.deleted())-alive(oldAlive)); err != nil {
		return err
	}
	if oldAlive {
		if err := db.unindex(id, old.body); err != nil {
			return err
		}
		if err := db.dropBlobs(id, old.atts, next.atts); err != nil {
			return err
		}
	}
	// old aliases the page that Put may rewrite: it is not touched after this.
	if err := db.docs.Put([]byte(id), next.encode()); err != nil {
		return fmt.Errorf("store document %s: %w", id, err)
	}
	if next.deleted() {
		return nil
	}
	return db.index(id, next.body)
}

func alive(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// count adds n to the bucket's number of entries.
func count(b *bolt.Bucket, n int) error {
	if n == 0 {
		return nil
	}
	if err := b.SetSequence(uint64(int64(b.Sequence()) + int64(n))); err != nil {
		return fmt.Errorf("count entries: %w", err)
	}
	return nil
}
