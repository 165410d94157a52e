package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// indexed are the fields that the views of an OpenWhisk deployment use.
type indexed struct {
	Namespace    string           `json:"namespace"`
	Name         string           `json:"name"`
	Version      json.RawMessage  `json:"version"`
	Publish      json.RawMessage  `json:"publish"`
	Annotations  json.RawMessage  `json:"annotations"`
	Limits       json.RawMessage  `json:"limits"`
	Updated      json.Number      `json:"updated"`
	Exec         json.RawMessage  `json:"exec"`
	Binding      json.RawMessage  `json:"binding"`
	Parameters   json.RawMessage  `json:"parameters"`
	Trigger      json.RawMessage  `json:"trigger"`
	ActivationID string           `json:"activationId"`
	Start        json.Number      `json:"start"`
	End          json.Number      `json:"end"`
	Cause        json.RawMessage  `json:"cause"`
	Response     *indexedResponse `json:"response"`

	// Of the subjects database.
	Subject               string             `json:"subject"`
	Namespaces            []indexedNamespace `json:"namespaces"`
	Blocked               bool               `json:"blocked"`
	ConcurrentInvocations *json.Number       `json:"concurrentInvocations"`
	InvocationsPerMinute  *json.Number       `json:"invocationsPerMinute"`
}

type indexedResponse struct {
	StatusCode json.RawMessage `json:"statusCode"`
}

type indexedNamespace struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
	Key  string `json:"key"`
}

// entry is one row a document has in a view: its key and, where it does not
// follow from the document, its value.
type entry struct {
	key   any
	value json.RawMessage
}

// index adds the document's rows to every view.
func (db *database) index(id string, body []byte) error {
	return db.eachEntry(id, body, func(b *bolt.Bucket, e entry) error {
		key := appendKey(nil, e.key)
		text, err := json.Marshal(e.key)
		if err != nil {
			return err
		}
		return b.Put(append(key, id...), encodeRow(len(key), text, e.value))
	})
}

// unindex removes the document's rows.
func (db *database) unindex(id string, body []byte) error {
	return db.eachEntry(id, body, func(b *bolt.Bucket, e entry) error {
		return b.Delete(append(appendKey(nil, e.key), id...))
	})
}

func (db *database) eachEntry(id string, body []byte, fn func(*bolt.Bucket, entry) error) error {
	var doc indexed
	if json.Unmarshal(body, &doc) != nil {
		// A field is of another type than the views expect. A map function
		// that throws emits nothing, so neither do we.
		return nil
	}
	indexes := db.root.Bucket(bucketViews)
	for _, v := range views {
		entries := v.emit(id, &doc)
		if len(entries) == 0 {
			continue
		}
		b, err := indexes.CreateBucketIfNotExists([]byte(v.name))
		if err != nil {
			return fmt.Errorf("create index %s: %w", v.name, err)
		}
		for _, e := range entries {
			if err := fn(b, e); err != nil {
				return fmt.Errorf("index document %s in %s: %w", id, v.name, err)
			}
		}
	}
	return nil
}

// A row on disk: how long the collated key in the index key is (the rest is
// the document's id), how long the key is as JSON, that JSON, the value.
func encodeRow(keyLen int, text, value []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(keyLen))
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	return append(append(b, text...), value...)
}

// row is an index entry as read back.
type row struct {
	id    string
	key   json.RawMessage
	value json.RawMessage
}

func decodeRow(k, v []byte) (row, error) {
	if len(v) < 8 {
		return row{}, fmt.Errorf("index row is cut off")
	}
	keyLen, textLen := int(binary.BigEndian.Uint32(v)), int(binary.BigEndian.Uint32(v[4:]))
	if keyLen > len(k) || 8+textLen > len(v) {
		return row{}, fmt.Errorf("index row is cut off")
	}
	return row{string(k[keyLen:]), v[8 : 8+textLen], v[8+textLen:]}, nil
}
