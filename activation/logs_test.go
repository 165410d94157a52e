package activation

import (
	"strings"
	"testing"
)

// The database keeps a record's logs; no ack carries them, whatever the record
// holds when it is sent. The document is named by the invoking namespace.
func TestLogsStayOutOfAcks(t *testing.T) {
	r := &Record{
		ActivationID: "0123456789abcdef0123456789abcdef", Namespace: "caller", Subject: "someone",
		Name: "act", Version: "0.0.1", Logs: []string{"line"},
	}
	for _, a := range []Ack{NewResult(NewTransID("t", 1, false), r), NewCombined(NewTransID("t", 1, false), r, Instance{})} {
		if text := string(a.Encode()); !strings.Contains(text, `"logs":[]`) || strings.Contains(text, "line") {
			t.Errorf("%s: %s", a.Kind, text)
		}
	}
	if doc := string(r.Document(1)); !strings.Contains(doc, `"logs":["line"]`) || !strings.HasPrefix(doc, `{"_id":"caller/0123456789abcdef0123456789abcdef",`) {
		t.Errorf("document %s", doc)
	}
}
