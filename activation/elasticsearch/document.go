package elasticsearch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// source returns a record's document as the original indexes it
// (ElasticSearchActivationStore.store):
//
//   - without _id, which Elasticsearch stores separately;
//   - with the action's path and a timestamp, for searches;
//   - with the annotations as an object, because arrays of mixed values cannot be
//     indexed;
//   - with the result as text, because the results of two actions may have different
//     types for the same field.
func source(body []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	var r struct {
		Namespace, Name string
		Start           int64
		Response        map[string]json.RawMessage
		Annotations     []struct {
			Key   string
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("read record: %w", err)
	}
	if r.Response == nil {
		return nil, errors.New("read record: it has no response")
	}
	annotations := map[string]json.RawMessage{}
	for _, a := range r.Annotations {
		annotations[a.Key] = a.Value
	}
	result := []byte("null")
	if given, ok := r.Response["result"]; ok {
		var compact bytes.Buffer
		if err := json.Compact(&compact, given); err != nil {
			return nil, fmt.Errorf("read result: %w", err)
		}
		result = compact.Bytes()
	}
	path, ok := text(annotations["binding"])
	if ok {
		path += "/" + r.Name
	} else if path, ok = text(annotations["path"]); !ok {
		path = r.Namespace + "/" + r.Name
	}
	delete(fields, "_id")
	for key, value := range map[string]any{
		"path": path, "@timestamp": instant(r.Start), "annotations": annotations,
	} {
		fields[key] = encode(value)
	}
	r.Response["result"] = encode(string(result))
	fields["response"] = encode(r.Response)
	return encode(fields), nil
}

// text is the text that a JSON value is, if it is one.
func text(value json.RawMessage) (s string, ok bool) {
	if !bytes.HasPrefix(value, []byte(`"`)) {
		return "", false
	}
	return s, json.Unmarshal(value, &s) == nil
}

// instant writes a time as Java's Instant does: a fraction has three digits, and
// zero is left out.
func instant(ms int64) string {
	layout := "2006-01-02T15:04:05.000Z"
	if ms%1000 == 0 {
		layout = "2006-01-02T15:04:05Z"
	}
	return time.UnixMilli(ms).UTC().Format(layout)
}

// encode returns the JSON of a value on one line, with < and > unescaped. The value was
// decoded from JSON, so encoding cannot fail.
func encode(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// namespace is the first part of a document's id, which is that of the record.
func namespace(id string) string {
	first, _, _ := strings.Cut(id, "/")
	return first
}
