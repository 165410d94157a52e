package activation

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// dropped are the messages that the original could not read either.
func dropped(value string) bool {
	return !strings.HasPrefix(value, `{"action"`) || !strings.Contains(value, `"revision"`) ||
		!strings.Contains(value, `"initArgs"`) || !strings.Contains(value, `"lockedArgs"`)
}

func TestCapturedMessages(t *testing.T) {
	values := examples(t, "invoker0")
	for _, c := range capturedRecords(t) {
		if c.Topic == "invoker0" && c.whole() {
			values = append(values, c.Value)
		}
	}
	read := 0
	for _, value := range values {
		m, err := DecodeMessage([]byte(value))
		if dropped(value) {
			check.That(t, err != nil, "decoded a message that the original drops: %s", value)
			continue
		}
		if err != nil {
			t.Errorf("%v: %s", err, value)
			continue
		}
		read++
		same(t, string(m.ActivationID), value, string(m.Encode()))
	}
	check.AtLeast(t, read, 50, "read only")
}

func TestCapturedAcks(t *testing.T) {
	values := examples(t, "completed0")
	for _, c := range capturedRecords(t) {
		if c.Topic == "completed0" && c.whole() {
			values = append(values, c.Value)
		}
	}
	kinds := map[AckKind]int{}
	for _, value := range values {
		a, err := DecodeAck([]byte(value))
		if err != nil {
			t.Errorf("%v: %s", err, value)
			continue
		}
		kinds[a.Kind]++
		same(t, a.Kind.String(), value, string(a.Encode()))
		if a.Record != nil && a.Kind == Combined && a.SystemError != a.Record.Response.SystemError() {
			t.Errorf("isSystemError %v, status %d", a.SystemError, a.Record.Response.StatusCode)
		}
	}
	for _, k := range []AckKind{Result, Completion, Combined} {
		check.AtLeast(t, kinds[k], 10, "acks of kind %s", k)
	}
}

func TestCapturedPings(t *testing.T) {
	for _, value := range examples(t, "health") {
		g, err := DecodePing([]byte(value))
		if err != nil {
			t.Errorf("%v: %s", err, value)
			continue
		}
		same(t, "ping", value, string(g.Encode()))
	}
}

// finished collects the records of every scenario, from acks and documents.
func finished(t *testing.T) map[ID]*Record {
	records := map[ID]*Record{}
	for _, s := range scenarios(t) {
		for _, doc := range s.Activations {
			if strings.Contains(string(doc), cut) || !strings.Contains(string(doc), "entityType") {
				continue
			}
			r, err := DecodeRecord(doc)
			if err != nil {
				t.Errorf("%s: %v", s.name, err)
				continue
			}
			records[r.ActivationID] = r
		}
	}
	for _, c := range capturedRecords(t) {
		if c.Topic != "completed0" || !c.whole() {
			continue
		}
		if a, err := DecodeAck([]byte(c.Value)); err == nil && a.Record != nil {
			records[a.ActivationID] = a.Record
		}
	}
	return records
}

// TestCapturedEvents makes the event of every captured record that has one.
func TestCapturedEvents(t *testing.T) {
	records := finished(t)
	compared := 0
	for _, c := range capturedRecords(t) {
		if c.Topic != "events" || !strings.Contains(c.Value, `"eventType":"Activation"`) {
			continue
		}
		var e struct {
			Body           struct{ ActivationID ID }
			Source, UserID string
			Timestamp      int64
		}
		check.NoError(t, json.Unmarshal([]byte(c.Value), &e))
		r := records[e.Body.ActivationID]
		if r == nil {
			continue
		}
		r.Details = runDetailsOf(r.Annotations)
		made, ok := NewEvent(r, e.Source, e.UserID, e.Timestamp)
		if !ok {
			t.Errorf("%s: no event", c.scenario)
			continue
		}
		compared++
		same(t, c.scenario, c.Value, string(made.Encode()))
	}
	check.AtLeast(t, compared, 50, "compared only")
}

// runDetailsOf reads the annotations of a captured record.
func runDetailsOf(a Annotations) (f RunDetails) {
	f.Path, _ = a.Text("path")
	f.Kind, _ = a.Text("kind")
	f.CausedBy, _ = a.Text("causedBy")
	conductor, _ := a.Get("conductor")
	f.Conductor = string(conductor) == "true"
	f.WaitTime, _ = a.Number("waitTime")
	f.InitTime, _ = a.Number("initTime")
	if limits, ok := a.Get("limits"); ok {
		memory, _ := member(limits, "memory")
		f.MemoryMB = newParser(memory).integer()
	}
	return f
}

// TestCapturedDocuments reads every stored record and writes it again.
func TestCapturedDocuments(t *testing.T) {
	compared := 0
	for _, s := range scenarios(t) {
		for id, doc := range s.Activations {
			if strings.Contains(string(doc), cut) || !strings.Contains(string(doc), "entityType") {
				continue
			}
			var stored struct {
				Rev     string `json:"_rev"`
				Updated int64
			}
			check.NoError(t, json.Unmarshal(doc, &stored))
			r, err := DecodeRecord(doc)
			if err != nil {
				t.Errorf("%s %s: %v", s.name, id, err)
				continue
			}
			want := strings.Replace(canonical(t, doc), `"_rev":"`+stored.Rev+`",`, "", 1)
			compared++
			same(t, s.name, want, canonical(t, r.Document(stored.Updated)))
		}
	}
	check.AtLeast(t, compared, 50, "compared only")
}

// TestCapturedBulkDocs compares our documents with the original's, byte for byte. The
// document that CouchDB refused differs in the refused number.
func TestCapturedBulkDocs(t *testing.T) {
	data, err := os.ReadFile(goldenDir + "/http/couchdb-invoker.txt")
	check.NoError(t, err)
	compared := 0
	for line := range strings.Lines(string(data)) {
		doc, ok := strings.CutPrefix(line, `{"docs":[`)
		if !ok {
			continue
		}
		doc = strings.TrimSuffix(strings.TrimSpace(doc), "]}")
		var stored struct{ Updated int64 }
		doc = strings.Replace(doc, `"g":1E+400`, `"g":"1E+400"`, 1)
		check.NoError(t, json.Unmarshal([]byte(doc), &stored))
		r, err := DecodeRecord([]byte(doc))
		check.NoError(t, err)
		compared++
		same(t, "document", doc, string(r.Document(stored.Updated)))
	}
	check.Equal(t, compared, 2)
}

// TestCapturedNumbers prints the answer of the number scenario and compares it with the
// result in the original's ack and in its document.
func TestCapturedNumbers(t *testing.T) {
	var answer, acked string
	for _, c := range capturedRecords(t) {
		if c.scenario != "result-numbers" {
			continue
		}
		switch c.Topic {
		case "invoker0":
			m, err := DecodeMessage([]byte(c.Value))
			check.NoError(t, err)
			var content struct{ Raw string }
			check.NoError(t, json.Unmarshal(m.Content, &content))
			answer = content.Raw
		case "completed0":
			a, err := DecodeAck([]byte(c.Value))
			check.NoError(t, err)
			acked = string(a.Record.Response.Result)
			check.Equal(t, UTF16Length(answer), *a.Record.Response.Size)
		}
	}
	same(t, "result", acked, canonical(t, []byte(answer)))
	r := Record{Namespace: "guest", Response: Response{Result: json.RawMessage(acked)}}
	doc := string(r.Document(1))
	check.Contains(t, doc, `"g":"1E+400"`)
	check.Contains(t, doc, `"b":1E+3`)
}

// TestCapturedActions decodes every stored action and checks its exec against
// the document.
func TestCapturedActions(t *testing.T) {
	m := manifest(t)
	decoded := 0
	for _, s := range scenarios(t) {
		for id, doc := range s.Actions {
			if doc[0] != '{' {
				continue // captured with its attachment, as MIME parts
			}
			var stored struct {
				EntityType string
				Exec       struct {
					Kind string
					Code json.RawMessage
				}
			}
			check.NoError(t, json.Unmarshal(doc, &stored))
			a, err := DecodeAction(doc, m)
			if stored.EntityType != "action" || stored.Exec.Kind == "sequence" {
				check.That(t, err != nil, "%s %s: decoded", s.name, id)
				continue
			}
			if err != nil {
				t.Errorf("%s %s: %v", s.name, id, err)
				continue
			}
			decoded++
			check.Equal(t, a.Exec.Kind, stored.Exec.Kind, "%s %s", s.name, id)
			check.Equal(t, a.FQN(), a.ID, "%s %s", s.name, id)
			check.That(t, a.Rev != "", "%s %s: %+v", s.name, id, a)
			inName := bytes.Contains(stored.Exec.Code, []byte("mem:"))
			check.Equal(t, inName, a.Exec.HasCode && a.Exec.Attachment == nil, "%s %s: code in name %v, exec %+v", s.name, id, inName, a.Exec)
		}
	}
	check.AtLeast(t, decoded, 25, "decoded only")
}
