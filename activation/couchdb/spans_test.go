package couchdb

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/activation/spans"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// spanLog records the spans of requests.
type spanLog struct {
	mu      sync.Mutex
	lines   []string
	batches []int // how many documents each had
}

func (h *spanLog) add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

func (h *spanLog) Begins(t activation.TransID, s spans.Span) func(string, error) {
	if s.Documents > 0 {
		h.mu.Lock()
		h.batches = append(h.batches, s.Documents)
		h.mu.Unlock()
	}
	h.add(fmt.Sprintf("%s %s begins: %s", t.ID(), s.Token, s.Text))
	return func(text string, err error) {
		h.add(fmt.Sprintf("%s %s ends (%t): %s", t.ID(), s.Token, err == nil, text))
	}
}

// Each request is logged with OpenWhisk's texts, in the transaction of the
// activation that it is for.
func TestRequestsAreSpans(t *testing.T) {
	f := newFake(t)
	f.docs["whisks/guest%2Fhello"] = action("hello", "1-a", `{"kind":"nodejs:20","code":{"attachmentName":"couch:77","attachmentType":"text/plain"}}`)
	f.files["whisks/guest%2Fhello/77"] = "function main() {}"
	cfg, log := f.config(), &spanLog{}
	cfg.Spans = log
	s := open(t, cfg)
	ctx := spans.With(t.Context(), activation.NewTransID("theirs", 1, false))
	for _, id := range []string{"guest/hello", "guest/hello", "guest/none"} {
		_, _ = s.Action(ctx, id, "1-a")
	}
	f.inject(503, 503, 503)
	_, _ = s.Action(ctx, "guest/away", "1-a")
	_ = s.RefreshBlacklist(t.Context())
	check.NoError(t, s.PutDocument(ctx, records.Document{ID: "guest/1", Body: []byte(`{"_id":"guest/1"}`)}))
	check.NoError(t, s.Flush(t.Context()))
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, want := range []string{
		"theirs database_getDocument begins: [GET] 'whisks' finding document: 'id: guest/hello, rev: null'",
		"theirs database_getDocument ends (true): [GET] 'whisks' completed: found document 'id: guest/hello, rev: null'",
		"theirs database_getDocumentAttachment begins: [ATT_GET] 'whisks' finding attachment '77' of document 'id: guest/hello, rev: null'",
		"theirs database_getDocumentAttachment ends (true): [ATT_GET] 'whisks' completed: found attachment '77' of document 'id: guest/hello, rev: null'",
		"theirs database_getDocument ends (true): [GET] 'whisks', document: 'id: guest/none, rev: null'; not found.",
		"theirs database_getDocument ends (false): ",
		"sid_invoker database_queryView begins: [QUERY] 'subjects' searching 'namespaceThrottlings/blockedNamespaces",
		"sid_invoker database_queryView ends (true): [QUERY] 'subjects' completed: matched 0",
		"sid_dbBatcher database_saveDocumentBulk begins: 'activations' saving 1 documents",
		"sid_dbBatcher database_saveDocumentBulk ends (true): 'activations' completed 1 documents",
	} {
		check.That(t, slices.ContainsFunc(log.lines, func(line string) bool { return strings.HasPrefix(line, want) }), "no %q among\n%s", want, strings.Join(log.lines, "\n"))
	}
	check.EqualSlices(t, log.batches, []int{1})
	check.Equal(t, strings.Count(strings.Join(log.lines, "\n"), "begins: [GET] 'whisks' finding document: 'id: guest/hello"), 1, "requests for an action that is cached")
}
