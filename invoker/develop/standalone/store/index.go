package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// entry is one row a document has in a view: its key and, where it does not
// follow from the document, its value.
type entry struct {
	key   any // a text, a json.RawMessage, or a slice of such values
	value json.RawMessage
}

// row is an entry as it is read: whose it is, with its key as JSON.
type row struct {
	id         string
	key, value json.RawMessage
}

// eachRow calls fn with each index row of a document: the bucket of the index, the key
// (the collated key followed by the document's id), and the row. A row has the lengths
// of the collated key and of the key as JSON, the key as JSON, and the value.
func (db *database) eachRow(id string, body []byte, fn func(b *bolt.Bucket, key, row []byte) error) error {
	var doc members
	if err := json.Unmarshal(body, &doc); err != nil {
		return fmt.Errorf("read document %s: %w", id, err)
	}
	doc["_id"], _ = json.Marshal(id)
	for _, v := range views {
		if !v.in(doc) {
			continue
		}
		for _, e := range v.emit(doc) {
			b, err := db.root.Bucket(bucketViews).CreateBucketIfNotExists([]byte(v.name))
			if err != nil {
				return fmt.Errorf("create index %s: %w", v.name, err)
			}
			text, _ := json.Marshal(e.key) // read from JSON
			key, err := collate(text)
			if err != nil {
				return fmt.Errorf("index document %s in %s: %w", id, v.name, err)
			}
			row := binary.BigEndian.AppendUint32(nil, uint32(len(key)))
			row = binary.BigEndian.AppendUint32(row, uint32(len(text)))
			if err := fn(b, append(key, id...), append(append(row, text...), e.value...)); err != nil {
				return fmt.Errorf("index document %s in %s: %w", id, v.name, err)
			}
		}
	}
	return nil
}

func decodeRow(k, v []byte) (row, error) {
	if len(v) < 8 {
		return row{}, errors.New("index row is cut off")
	}
	keyLen, textLen := int(binary.BigEndian.Uint32(v)), int(binary.BigEndian.Uint32(v[4:]))
	if keyLen > len(k) || 8+textLen > len(v) {
		return row{}, errors.New("index row is cut off")
	}
	return row{string(k[keyLen:]), v[8 : 8+textLen], v[8+textLen:]}, nil
}
