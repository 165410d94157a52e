package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// entry is one row a document has in a view: its key and, where it does not
// follow from the document, its value.
type entry struct {
	key   any // of texts, json.RawMessage and slices of them
	value json.RawMessage
}

// index adds the document's rows to every view.
func (db *database) index(id string, body []byte) error {
	return db.eachEntry(id, body, func(b *bolt.Bucket, key, text, value []byte) error {
		return b.Put(append(key, id...), encodeRow(len(key), text, value))
	})
}

// unindex removes the document's rows.
func (db *database) unindex(id string, body []byte) error {
	return db.eachEntry(id, body, func(b *bolt.Bucket, key, _, _ []byte) error {
		return b.Delete(append(key, id...))
	})
}

// eachEntry calls fn with each row of the document: the index that it is in, its key
// as the index has it and as JSON, and its value.
func (db *database) eachEntry(id string, body []byte, fn func(b *bolt.Bucket, key, text, value []byte) error) error {
	var doc members
	if err := json.Unmarshal(body, &doc); err != nil {
		return fmt.Errorf("read document %s: %w", id, err)
	}
	for _, v := range views {
		for _, e := range v.emit(id, doc) {
			b, err := db.root.Bucket(bucketViews).CreateBucketIfNotExists([]byte(v.name))
			if err != nil {
				return fmt.Errorf("create index %s: %w", v.name, err)
			}
			text, err := json.Marshal(e.key)
			if err != nil {
				return fmt.Errorf("write key of %s in %s: %w", id, v.name, err)
			}
			key, err := collate(text)
			if err == nil {
				err = fn(b, key, text, e.value)
			}
			if err != nil {
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
