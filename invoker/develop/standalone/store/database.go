package store

import (
	"fmt"
	"net/http"
	"regexp"

	bolt "go.etcd.io/bbolt"
)

// database is one CouchDB database within a transaction. The sequence number
// of the documents' bucket counts them, which bbolt cannot do cheaply.
type database struct {
	root  *bolt.Bucket
	docs  *bolt.Bucket
	blobs *bolt.Bucket // contents of attachments
}

// The buckets of a database.
var (
	bucketDocs  = []byte("docs")
	bucketBlobs = []byte("blobs")
	bucketViews = []byte("views")
)

// open returns a database, or nil if there is none of that name.
func open(tx *bolt.Tx, name string) *database {
	root := tx.Bucket([]byte(name))
	if root == nil {
		return nil
	}
	return &database{root: root, docs: root.Bucket(bucketDocs), blobs: root.Bucket(bucketBlobs)}
}

func (db *database) info(r *request) (answer, error) {
	return map[string]any{"db_name": r.PathValue("db"), "doc_count": db.docs.Sequence()}, nil
}

var databaseName = regexp.MustCompile(`^[a-z][a-z0-9_$()+/-]*$`)

func (s *Store) createDatabase(r *request) (answer, error) {
	name := r.PathValue("db")
	if !databaseName.MatchString(name) {
		return nil, &refusal{http.StatusBadRequest, "illegal_database_name", "Name: '" + name + "'. Only lower case letters, digits and _$()+-/ are allowed."}
	}
	err := s.db.Update(func(tx *bolt.Tx) error {
		if tx.Bucket([]byte(name)) != nil {
			return &refusal{http.StatusPreconditionFailed, "file_exists", "The database could not be created, the file already exists."}
		}
		root, err := tx.CreateBucket([]byte(name))
		for _, b := range [][]byte{bucketDocs, bucketBlobs, bucketViews} {
			if err == nil {
				_, err = root.CreateBucket(b)
			}
		}
		if err != nil {
			return fmt.Errorf("create database %s: %w", name, err)
		}
		return nil
	})
	return map[string]bool{"ok": true}, err
}

// record reads a document or tombstone, a record of nothing when there never was
// one.
func (db *database) record(id string) (*record, error) {
	raw := db.docs.Get([]byte(id))
	if raw == nil {
		return &record{}, nil
	}
	r, err := decodeRecord(raw)
	if err != nil {
		return nil, fmt.Errorf("read document %s: %w", id, err)
	}
	return r, nil
}

// existing reads a document that is not deleted.
func (db *database) existing(id string) (*record, error) {
	rec, err := db.record(id)
	switch {
	case err != nil:
		return nil, err
	case rec.rev == "":
		return nil, notFound("missing")
	case rec.deleted():
		return nil, notFound("deleted")
	}
	return rec, nil
}

// replace stores next as the revision after old and keeps the count of
// documents, indexes and attachment contents in step. It returns the new
// revision.
func (db *database) replace(id string, old, next *record) (string, error) {
	next.rev = nextRev(old.rev)
	docs := db.docs.Sequence()
	unindex := func(b *bolt.Bucket, key, _ []byte) error { return b.Delete(key) }
	if !old.deleted() {
		docs--
		if err := db.eachRow(id, old.body, unindex); err != nil {
			return "", err
		}
	}
	for name := range old.atts {
		if _, kept := next.atts[name]; kept {
			continue
		}
		if err := db.blobs.Delete(blobKey(id, name)); err != nil {
			return "", fmt.Errorf("remove attachment %s of %s: %w", name, id, err)
		}
	}
	// old aliases the page that Put may rewrite: it is not touched after this.
	if err := db.docs.Put([]byte(id), next.encode()); err != nil {
		return "", fmt.Errorf("store document %s: %w", id, err)
	}
	if !next.deleted() {
		docs++
		if err := db.eachRow(id, next.body, (*bolt.Bucket).Put); err != nil {
			return "", err
		}
	}
	if err := db.docs.SetSequence(docs); err != nil {
		return "", fmt.Errorf("count documents: %w", err)
	}
	return next.rev, nil
}
