package store

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func FuzzParseDoc(f *testing.F) {
	for _, seed := range []string{`{}`, `{"_id":"a","_rev":"1-x","b":[1,{"c":null}]}`, `{"_attachments":{"a":{"data":"AA==","content_type":"x"}}}`, `{"a":1,"a":2}`, `[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		in, err := parseDoc(raw)
		if err != nil {
			return
		}
		check.That(check.Must(t), json.Valid(in.body), "%q became %q", raw, in.body)
		r := &record{rev: "1-a", body: in.body}
		back, err := decodeRecord(r.encode())
		check.NoError(t, err, "%q", in.body)
		check.Equal(t, string(back.body), string(in.body))
		check.That(t, json.Valid(r.render(in.ID)), "%q", r.render(in.ID))
	})
}

func FuzzCollate(f *testing.F) {
	f.Add([]byte(`["guest",1]`), []byte(`["guest",{}]`))
	f.Add([]byte(`"a"`), []byte(`"a\u0000b"`))
	f.Add([]byte(`-1`), []byte(`1e400`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ka, errA := collate(a)
		kb, errB := collate(b)
		if errA != nil || errB != nil {
			return
		}
		// A string that begins another sorts first, whatever follows it.
		var sa, sb string
		if json.Unmarshal(a, &sa) == nil && json.Unmarshal(b, &sb) == nil {
			check.Equal(t, strings.Compare(string(ka), string(kb)), strings.Compare(sa, sb), "%q and %q", sa, sb)
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add("POST", "/db/_bulk_docs", []byte(`{"docs":[{"_id":"a","activationId":"b","start":1}]}`))
	f.Add("GET", "/db/_design/whisks.v2.1.0/_view/activations", []byte(``))
	f.Add("PUT", "/db/a%2Fb", []byte(`{"exec":{},"namespace":"n"}`))
	f.Add("PUT", "/db/a/att", []byte(`x`))
	s, err := Open(Config{Path: filepath.Join(f.TempDir(), "s.db")})
	check.NoError(f, err)
	f.Cleanup(func() { _ = s.Close() })
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("PUT", "/db", nil))
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		req, err := http.NewRequestWithContext(context.Background(), method, "http://h"+path, strings.NewReader(string(body)))
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		check.That(t, w.Code != 500, "%s %s %q: %s", method, path, body, w.Body)
	})
}

func BenchmarkBulkDocs(b *testing.B) {
	for _, size := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			_, srv := serve(b, filepath.Join(b.TempDir(), "s.db"))
			call(b, srv, "PUT", "/db", "")
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				docs := make([]string, size)
				for j := range docs {
					docs[j] = record1("guest", fmt.Sprintf("%016x%016x", i, j), i, "")
				}
				if code, body := call(b, srv, "POST", "/db/_bulk_docs", `{"docs":[`+strings.Join(docs, ",")+`]}`); code != 201 {
					b.Fatal(code, body)
				}
			}
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "docs/s")
		})
	}
}
