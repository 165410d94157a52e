package couchdb

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

func record(i int, result string) *activation.Record {
	id := activation.ID(fmt.Sprintf("%032x", i))
	duration := int64(3)
	r := &activation.Record{
		ActivationID: id, Namespace: "guest", Name: "a", Subject: "guest", Version: "0.0.1",
		Start: 1, End: 4, Duration: &duration, Response: activation.Response{Result: json.RawMessage(result)},
	}
	r.Annotations.AddText("path", "guest/a")
	r.Annotations.AddText("kind", "nodejs:20")
	return r
}

// TestRecordsArriveAsWritten: records arrive over HTTP byte for byte.
func TestRecordsArriveAsWritten(t *testing.T) {
	f := newFake(t)
	s := open(t, f.config())
	want := map[string]string{}
	for i, result := range []string{`{"n":1E+3,"big":12345678901234567890.123456789}`, `{"s":"<&>\u0001é` + "\u2028" + `"}`, `[1.50]`} {
		r := record(i, result)
		doc := r.Document(int64(100 + i))
		want["activations/"+r.DocumentID()] = string(doc)
		check.NoError(t, s.PutDocument(t.Context(), records.Document{ID: r.DocumentID(), Body: doc}))
	}
	check.NoError(t, s.Flush(t.Context()))
	for path, doc := range want {
		check.Equal(t, f.docs[path], doc)
	}
}

// TestBulkRequestCopiesNoDocument: a request of large documents holds each document
// once, has a length, and can be sent again after a broken connection.
func TestBulkRequestCopiesNoDocument(t *testing.T) {
	large := []byte(strings.Repeat(" ", 1<<20) + "{}")
	docs := []records.Document{{Body: large}, {Body: large}}
	req := httptest.NewRequest(http.MethodPost, "/", nil)
	parts := bulkBody(docs)
	check.Equal(t, &parts[1][0], &large[0], "the document is copied")
	setBody(req, parts)
	var length int
	for range 2 {
		body, err := req.GetBody()
		check.NoError(t, err)
		sent, err := io.ReadAll(body)
		check.NoError(t, err)
		check.Equal(t, string(sent), `{"docs":[`+string(large)+","+string(large)+"]}")
		length = len(sent)
	}
	check.Equal(t, req.ContentLength, int64(length))
}

// TestRecordsSurviveFaults: a record survives every kind of failure of the database.
func TestRecordsSurviveFaults(t *testing.T) {
	f := newFake(t)
	cfg := f.config()
	cfg.Records.Timeout = 100 * time.Millisecond
	s := open(t, cfg)
	faults := []fault{401, 404, 409, 429, 500, 503, halfBody, hangUp, hang}
	for i, broken := range faults {
		f.inject(broken, broken)
		r := record(i, `{}`)
		check.NoError(t, s.PutDocument(t.Context(), records.Document{ID: r.DocumentID(), Body: r.Document(1)}))
		check.NoError(t, s.Flush(t.Context()))
		check.That(t, f.has("activations/"+r.DocumentID()), "lost with fault %d", broken)
	}
	h := s.Health()
	// If the answer breaks off after the write, the next try is a conflict.
	check.That(check.Must(t), h.Writes.OK(), "health %+v", h)
	check.Equal(t, h.Records.Written, uint64(len(faults)))
	check.That(t, h.Records.Conflicts != 0, "health %+v", h)
	check.Equal(t, h.Records.Rejected, 0)
}

// TestRefusedNumber: a document that CouchDB refuses does not affect its neighbours, and
// the invoker's own documents contain no such number.
func TestRefusedNumber(t *testing.T) {
	f := newFake(t)
	cfg := f.config()
	rejected := make(chan string, 20)
	cfg.Records.Rejected = func(id string, _ error) { rejected <- id }
	cfg.Records.Requests = 1
	s := open(t, cfg)
	for i := range 20 {
		doc := record(i, `{"g":1E+400}`).Document(1)
		if i == 7 {
			doc = []byte(strings.Replace(string(doc), `"1E+400"`, `1E+400`, 1))
		}
		check.NoError(t, s.PutDocument(t.Context(), records.Document{ID: record(i, "").DocumentID(), Body: doc}))
	}
	more := 20
	peertest.Until(t, "one record is given up while others are written", func() string {
		r := record(more, `{}`)
		check.NoError(t, s.PutDocument(t.Context(), records.Document{ID: r.DocumentID(), Body: r.Document(1)}))
		more++
		if len(rejected) == 0 {
			return fmt.Sprintf("%+v", s.Health())
		}
		return ""
	})
	check.NoError(t, s.Flush(t.Context()))
	check.Equal(check.Must(t), len(f.docs), more-1)
	check.Equal(t, <-rejected, record(7, "").DocumentID())
	check.Equal(t, len(rejected), 0)
}

// TestRefusedByADesignDocument: CouchDB answers 201 with an error for every record,
// because of a design document, shards or permissions. After it accepts records again,
// all are written.
func TestRefusedByADesignDocument(t *testing.T) {
	for _, word := range []string{"forbidden", "unauthorized", "timeout", "unknown_error", "internal_server_error"} {
		t.Run(word, func(t *testing.T) {
			f := newFake(t)
			f.setRefusal(word)
			s := open(t, f.config())
			for i := range 20 {
				r := record(i, `{}`)
				check.NoError(t, s.PutDocument(t.Context(), records.Document{ID: r.DocumentID(), Body: r.Document(1)}))
			}
			tries := f.seen("POST")
			peertest.Until(t, "the records are tried again and again", func() string {
				if n := f.seen("POST") - tries; n < 30 {
					return fmt.Sprint(n, " requests")
				}
				return ""
			})
			h := s.Health()
			check.Equal(t, h.Refused, 20)
			check.Contains(t, h.Writes.LastError, "every record is refused: "+word+": not today")
			f.setRefusal("")
			check.NoError(t, s.Flush(t.Context()))
			h = s.Health()
			check.Equal(t, h.Records.Written, 20)
			check.Equal(t, h.Records.Rejected, 0)
			check.That(t, h.OK(), "health %+v", h)
		})
	}
}

// TestDiskSpoolBehindTheStore: records from a time without a database arrive, each once.
func TestDiskSpoolBehindTheStore(t *testing.T) {
	// The time limit of two minutes allows for a slow disk.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := newFake(t)
	f.docs["activations"] = `{}`
	cfg := f.config()
	spool, err := records.OpenSpool(records.SpoolConfig{Dir: t.TempDir(), SegmentBytes: 2000, Timeout: time.Minute})
	check.NoError(t, err)
	t.Cleanup(func() { _ = spool.Close() })
	cfg.Records.Spool = spool
	s := open(t, cfg)
	f.inject(slices.Repeat([]fault{503}, 100_000)...)
	for i := range 200 {
		r := record(i, `{}`)
		check.NoError(t, s.PutDocument(ctx, records.Document{ID: r.DocumentID(), Body: r.Document(1)}))
		for i == 0 && s.Health().Writes.OK() && ctx.Err() == nil {
			runtime.Gosched() // until the failure is known
		}
	}
	f.inject()
	check.NoError(t, s.Flush(ctx))
	// The senders drain the spool when they get to it.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 200; spool.Documents() > 0; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d records are in the spool, its trouble is %v", spool.Documents(), spool.Err())
		}
		r := record(i, `{}`)
		check.NoError(t, s.PutDocument(ctx, records.Document{ID: r.DocumentID(), Body: r.Document(1)}))
		check.NoError(t, s.Flush(ctx))
	}
	for i := range 200 {
		check.That(t, f.has("activations/"+record(i, "").DocumentID()), "record %d is lost", i)
	}
	h := s.Health()
	check.That(t, h.Records.Spooled != 0, "health %+v", h.Records)
}
