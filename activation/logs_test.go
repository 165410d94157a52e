package activation

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// The database keeps a record's logs; no ack carries them, whatever the record
// holds when it is sent. The document is named by the invoking namespace.
func TestLogsStayOutOfAcks(t *testing.T) {
	r := &Record{
		ActivationID: "0123456789abcdef0123456789abcdef", Namespace: "caller", Subject: "someone",
		Name: "act", Version: "0.0.1", Logs: []string{"line"},
	}
	for _, a := range []Ack{NewResult(NewTransID("t", 1, false), r), NewCombined(NewTransID("t", 1, false), r, Instance{})} {
		text := string(a.Encode())
		check.Contains(t, text, `"logs":[]`, "%s", a.Kind)
		check.Lacks(t, text, "line", "%s", a.Kind)
	}
	doc := string(r.Document(1))
	check.Contains(t, doc, `"logs":["line"]`)
	check.That(t, strings.HasPrefix(doc, `{"_id":"caller/0123456789abcdef0123456789abcdef",`), "document %s", doc)
}
