package couchdb

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// stepLog records the steps of a store.
type stepLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *stepLog) begin(step string, documents int) func(error) {
	return func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, fmt.Sprintf("%s of %d: %t", step, documents, err == nil))
	}
}

// TestRequestsAreReported: each request is reported with OpenWhisk's name.
func TestRequestsAreReported(t *testing.T) {
	f := newFake(t)
	f.docs["whisks/guest%2Fhello"] = action("hello", "1-a", `{"kind":"nodejs:20","code":{"attachmentName":"couch:77","attachmentType":"text/plain"}}`)
	f.files["whisks/guest%2Fhello/77"] = "function main() {}"
	cfg, log := f.config(), &stepLog{}
	cfg.Steps = log.begin
	s := open(t, cfg)
	for _, id := range []string{"guest/hello", "guest/hello", "guest/none"} {
		_, _ = s.Action(t.Context(), id, "1-a")
	}
	f.inject(503, 503, 503)
	_, _ = s.Action(t.Context(), "guest/away", "1-a")
	_ = s.RefreshBlacklist(t.Context())
	check.NoError(t, s.PutDocument(t.Context(), records.Document{ID: "guest/1", Body: []byte(`{"_id":"guest/1"}`)}))
	check.NoError(t, s.Flush(t.Context()))
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, want := range []string{
		"database_getDocument of 0: true", "database_getDocument of 0: false", "database_getDocumentAttachment of 0: true",
		"database_queryView of 0: true", "database_saveDocumentBulk of 1: true",
	} {
		check.Includes(t, log.lines, want)
	}
	attachments := slices.DeleteFunc(slices.Clone(log.lines), func(line string) bool { return line != "database_getDocumentAttachment of 0: true" })
	check.Equal(t, len(attachments), 1, "requests for the code of a cached action")
}
