package elasticsearch

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// record returns an activation of guest with the given result.
func record(i int, result string) *activation.Record {
	n := int64(17)
	return &activation.Record{
		ActivationID: activation.ID(fmt.Sprintf("%032x", i)), Namespace: "guest", Name: "hello", Subject: "guest", Version: "0.0.1",
		Start: 1718000000250, End: 1718000000267, Duration: &n,
		Response: activation.Response{StatusCode: 0, Result: []byte(result)},
		Logs:     []string{"2024-06-10T06:13:20.25Z        stdout: <hi> & bye"},
		Annotations: activation.Annotations{
			{Key: "path", Value: []byte(`"guest/tools/hello"`)}, {Key: "kind", Value: []byte(`"python:3"`)},
			{Key: "limits", Value: []byte(`{"memory":256}`)}, {Key: "waitTime", Value: []byte("5")},
		},
	}
}

func doc(i int, result string) records.Document {
	r := record(i, result)
	return records.Document{ID: r.DocumentID(), Body: r.Document(1718000000300)}
}

// put queues documents and waits until each is stored or given up. It returns the
// number of stored documents.
func put(t testing.TB, s *Store, docs ...records.Document) (stored int) {
	t.Helper()
	var good atomic.Int32
	for _, d := range docs {
		d.Stored = func(_ int, err error) {
			if err == nil {
				good.Add(1)
			}
		}
		check.NoError(t, s.PutDocument(t.Context(), d))
	}
	check.NoError(t, s.Flush(t.Context()))
	return int(good.Load())
}

// TestDocumentIsTheOriginals: each field is the same as in OpenWhisk's own store.
func TestDocumentIsTheOriginals(t *testing.T) {
	got, err := source(doc(0x1f, `{"n":1.0, "big":12345678901234567890,"text":"a\u2028<b>"}`).Body)
	check.NoError(t, err)
	const want = `{"@timestamp":"2024-06-10T06:13:20.250Z","activationId":"0000000000000000000000000000001f",` +
		`"annotations":{"kind":"python:3","limits":{"memory":256},"path":"guest/tools/hello","waitTime":5},` +
		`"duration":17,"end":1718000000267,"entityType":"activation","logs":["2024-06-10T06:13:20.25Z        stdout: <hi> & bye"],` +
		`"name":"hello","namespace":"guest","path":"guest/tools/hello","publish":false,` +
		`"response":{"result":"{\"n\":1.0,\"big\":12345678901234567890,\"text\":\"a\\u2028<b>\"}","statusCode":0},` +
		`"start":1718000000250,"subject":"guest","updated":1718000000300,"version":"0.0.1"}`
	check.Equal(t, string(got), want)
}

func TestDocumentDetails(t *testing.T) {
	of := func(change func(*activation.Record)) string {
		r := record(1, `{}`)
		change(r)
		got, err := source(r.Document(1))
		check.NoError(t, err)
		return string(got)
	}
	for name, c := range map[string]struct {
		change func(*activation.Record)
		want   string
	}{
		"bound package": {func(r *activation.Record) {
			r.Annotations = append(r.Annotations, activation.Annotation{Key: "binding", Value: []byte(`"guest/bound"`)})
		}, `"path":"guest/bound/hello"`},
		"no path":            {func(r *activation.Record) { r.Annotations = nil }, `"path":"guest/hello"`},
		"a path of no text":  {func(r *activation.Record) { r.Annotations[0].Value = []byte("7") }, `"path":"guest/hello","publish"`},
		"no annotations":     {func(r *activation.Record) { r.Annotations = nil }, `"annotations":{}`},
		"no result":          {func(r *activation.Record) { r.Response.Result = nil }, `"response":{"result":"null",`},
		"result is an array": {func(r *activation.Record) { r.Response.Result = []byte(`[1,{"a":2}]`) }, `"result":"[1,{\"a\":2}]"`},
		"a whole second":     {func(r *activation.Record) { r.Start = 1718000000000 }, `"@timestamp":"2024-06-10T06:13:20Z"`},
		"a tenth":            {func(r *activation.Record) { r.Start = 1718000000100 }, `"@timestamp":"2024-06-10T06:13:20.100Z"`},
		"no id":              {func(*activation.Record) {}, `{"@timestamp"`},
	} {
		got := of(c.change)
		check.Contains(t, got, c.want, "%s", name)
		check.Lacks(t, got, `"_id"`, "%s", name)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"response":7}`, `{"response":{},"annotations":{}}`} {
		if got, err := source([]byte(bad)); err == nil {
			t.Errorf("%q became %s", bad, got)
		}
	}
}

func FuzzSource(f *testing.F) {
	f.Add(string(doc(1, `{"a":[1,2,{"b":null}]}`).Body))
	f.Add(`{"response":{"result":"x\ny"},"annotations":[{"key":"path","value":"a"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		if got, err := source([]byte(body)); err == nil && strings.Contains(string(got), "\n") {
			t.Errorf("%q has more than one line", got) // the protocol is one of lines
		}
	})
}

func TestPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"openwhisk-%s": "openwhisk-whisk.system", "openwhisk": "openwhisk", "/a%1$s%%-b": "awhisk.system%-b",
		"%s": "whisk.system", "//x": "x",
	} {
		p, err := parsePattern(pattern)
		check.ErrorIs(t, err, nil, "%q", pattern)
		check.Equal(t, p.Index("Whisk.System"), want, "%q", pattern)
	}
	for _, bad := range []string{"", "/", "%d", "%", "a%s%s", "%2$s", "50%"} {
		_, err := parsePattern(bad)
		check.ErrorContains(t, err, bad, "%q", bad)
	}
}

// TestRecordsArrive: each record arrives once, even if it is sent twice, at the place
// where OpenWhisk's controllers look for it.
func TestRecordsArrive(t *testing.T) {
	w := startServer(t)
	s := open(t, w.config())
	if err := probe(t, w.config()); err != nil {
		t.Fatalf("probe: %v", err)
	}
	var docs []records.Document
	for i := range 300 {
		// "a" has another type in each of two actions, which must not matter.
		docs = append(docs, doc(i, []string{`{"a":1}`, `{"a":{"b":"text"}}`, `{"a":"text"}`}[i%3]))
	}
	check.Equal(t, put(t, s, docs...), 300, "%+v", s.Health())
	check.Equal(t, put(t, s, docs[250:]...), 50, "again: %+v", s.Health())
	h := s.Health()
	check.That(t, h.OK(), "%+v", h)
	check.Equal(t, h.Records.Written, 350)
	check.Equal(t, h.Records.Rejected, 0)
	w.keeps(docs[1])
	// The controller's questions: by id, by path, by namespace and time.
	index := "/" + w.name + "-guest"
	w.ask(http.MethodPost, index+"/_refresh", "", new(any))
	var found struct{ Hits struct{ Total int } }
	for question, want := range map[string]int{
		`{"query":{"term":{"_id":"` + docs[7].ID + `"}}}`:                                                                                    1,
		`{"query":{"match_phrase":{"path":"guest/tools/hello"}}}`:                                                                            300,
		`{"query":{"bool":{"must":[{"match_phrase":{"namespace":"guest"}},{"range":{"start":{"gte":1718000000250,"lte":1718000000250}}}]}}}`: 300,
		`{"query":{"match_phrase":{"path":"guest/tools/bye"}}}`:                                                                              0,
	} {
		if w.ask(http.MethodPost, index+"/_search", question, &found); found.Hits.Total != want {
			t.Errorf("%s finds %d, want %d", question, found.Hits.Total, want)
		}
	}
}

// TestFirstRecordStays: a later one of the same activation, as of a process that knows
// only that another began to run it, counts as written and changes nothing.
func TestFirstRecordStays(t *testing.T) {
	w := startServer(t)
	s := open(t, w.config())
	first := doc(1, `{"of":"the run"}`)
	put(t, s, first)
	stored := put(t, s, doc(1, `{"error":"The invoker ended while the action ran."}`), doc(2, `{}`))
	check.Equal(t, stored, 2, "%+v", s.Health())
	w.keeps(first)
	h := s.Health().Records
	check.Equal(t, h.Conflicts, 1)
	check.Equal(t, h.Written, 3)
}

// TestOneBadRecord: a record that the index refuses becomes a dead letter with its
// reason, and does not delay other records.
func TestOneBadRecord(t *testing.T) {
	w := startServer(t)
	cfg := w.config()
	dir := t.TempDir()
	cfg.Records.DeadLetters = records.DeadLetterDir{Dir: dir}
	cfg.Records.BackoffMax = 100 * time.Millisecond
	s := open(t, cfg)
	put(t, s, doc(0, `{}`))
	bad := record(1, `{}`)
	bad.Annotations[2].Value = []byte(`"limits are an object elsewhere"`)
	for _, d := range []records.Document{doc(2, `{}`), {ID: bad.DocumentID(), Body: bad.Document(1)}, doc(3, `{}`)} {
		check.NoError(t, s.PutDocument(t.Context(), d))
	}
	more := 4
	peertest.Until(t, "one record is given up while others are written", func() string {
		check.NoError(t, s.PutDocument(t.Context(), doc(more, `{}`)))
		more++
		if h := s.Health(); h.Records.DeadLettered == 0 {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
	check.NoError(t, s.Flush(t.Context()))
	check.Equal(t, s.Health().Records.Written, uint64(more-1))
	letters, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	check.Equal(check.Must(t), len(letters), 1, "%v: %+v", letters, s.Health())
	text, _ := os.ReadFile(letters[0])
	check.Contains(t, string(text), "mapper_parsing_exception")
	h := s.Health()
	check.That(t, h.OK(), "%+v", h)
	check.Equal(t, h.Records.DeadLettered, 1)
}

// TestFullForAWhile: a failure that is not about a record passes, and its records
// wait meanwhile.
func TestFullForAWhile(t *testing.T) {
	w := startServer(t)
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"disk is full":  {200, `{"items":[{"create":{"status":403,"error":{"type":"cluster_block_exception","reason":"blocked by: [FORBIDDEN/12/index read-only]"}}}]}`},
		"too many":      {200, `{"items":[{"create":{"status":429,"error":{"type":"es_rejected_execution_exception","reason":"queue"}}}]}`},
		"all too many":  {429, `{"error":{"type":"circuit_breaking_exception","reason":"Data too large"},"status":429}`},
		"no rights":     {403, `{"error":{"type":"security_exception","reason":"action [indices:data/write/bulk] is unauthorized"},"status":403}`},
		"proxy":         {502, `<html>bad gateway</html>`},
		"another proxy": {400, `<html>The plain HTTP request was sent to HTTPS port</html>`},
		"other answer":  {200, `{"items":[]}`},
		"no answer":     {200, `x`},
		"endless":       {200, strings.Repeat(" ", mostAnswer+mostPerRecord+1) + `{"items":[{"create":{"status":200}}]}`},
		"unknown shape": {200, `{"items":[{"index":{"status":201}}]}`},
	} {
		s := open(t, w.config())
		w.answer(c.status, c.body)
		done := make(chan error, 1)
		d := doc(len(name), `{}`)
		d.Stored = func(_ int, err error) { done <- err }
		check.NoError(t, s.PutDocument(t.Context(), d))
		for s.Health().Writes.OK() {
			runtime.Gosched()
		}
		h := s.Health()
		check.Equal(t, len(done), 0, "%s", name)
		check.Equal(t, h.Records.Rejected, 0, "%s", name)
		check.That(t, h.Writes.LastError != "", "%s", name)
		w.answer(0, "")
		check.ErrorIs(t, <-done, nil, "%s", name)
		_, ok := w.read(d.ID)
		check.That(t, ok, "%s: the record is there", name)
	}
}

// TestNothing: a batch of none reports whether records are taken.
func TestNothing(t *testing.T) {
	w := startServer(t)
	s := open(t, w.config())
	check.NoError(t, s.sendEmptyBatch(t.Context()), "a server that takes records")
	w.answer(http.StatusForbidden, `{"error":{"type":"security_exception","reason":"unauthorized"},"status":403}`)
	check.ErrorContains(t, s.sendEmptyBatch(t.Context()), "security_exception", "a server that takes none")
}

func TestTooLarge(t *testing.T) {
	w := startServer(t)
	s := open(t, w.config())
	put(t, s, doc(0, `{}`))
	w.answer(http.StatusRequestEntityTooLarge, `{"error":{"type":"x","reason":"too large"},"status":413}`)
	w.mu.Lock()
	refuse := w.instead
	w.instead = func(rw http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		return bytes.Contains(body, []byte("<hi>")) && refuse(rw, r)
	}
	w.mu.Unlock()
	check.Equal(check.Must(t), put(t, s, doc(1, `{}`)), 1, "%+v", s.Health())
	got, ok := w.read(doc(1, "").ID)
	check.That(t, ok)
	check.Lacks(t, string(got), "<hi>")
}

// TestProbeReportsWhatIsWrong, and which setting to check; and never the password.
func TestProbeReportsWhatIsWrong(t *testing.T) {
	w := startServer(t)
	const under = "whisk.activation-store.elasticsearch."
	wrong := w.config()
	wrong.Password = "another secret"
	err := probe(t, wrong)
	check.ErrorContains(check.Must(t), err, "user or password not accepted ("+under+"username, "+under+"password)")
	check.Lacks(t, err.Error(), wrong.Password)
	away := w.config()
	away.Hosts = []string{"127.0.0.1:1"}
	err = probe(t, away)
	check.ErrorContains(check.Must(t), err, "refused")
	check.ErrorContains(t, err, under+"hosts")
	check.Lacks(t, err.Error(), password)
	secure := httptest.NewTLSServer(w.listener.Config.Handler)
	t.Cleanup(secure.Close)
	own := w.config()
	own.Protocol, own.Hosts = "https", []string{secure.Listener.Addr().String()}
	err = probe(t, own)
	check.ErrorContains(t, err, "unknown authority")
	check.ErrorContains(t, err, "whisk.gpu.elasticsearch.certificate")
	own.Certificate = filepath.Join(t.TempDir(), "ca.pem")
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	check.NoError(t, os.WriteFile(own.Certificate, trusted, 0o600))
	s := open(t, own)
	check.Equal(t, put(t, s, doc(7, `{}`)), 1, "an authority of the operator's own: %+v", s.Health())
	one := w.config()
	one.Hosts = append([]string{"127.0.0.1:1"}, one.Hosts...)
	s = open(t, one)
	check.Equal(t, put(t, s, doc(0, `{}`)), 1, "one of two hosts is away: %+v", s.Health())
}

// probe probes again while the machine is too slow for an answer.
func probe(t *testing.T, cfg Config) (err error) {
	t.Helper()
	for range 10 {
		err = open(t, cfg).Probe(t.Context())
		var slow net.Error
		if !errors.As(err, &slow) || !slow.Timeout() {
			break
		}
	}
	return err
}

// TestTypesByVersion: servers from version 7 on are sent no type.
func TestTypesByVersion(t *testing.T) {
	for number, want := range map[string]bool{
		`"number":"6.7.2"`: true, `"number":"7.0.0"`: false, `"number":"8.19.1"`: false,
		`"distribution":"opensearch","number":"2.11.0"`: false,
	} {
		s := open(t, fake(t, `{"version":{`+number+`}}`))
		got, err := s.needsType(t.Context())
		check.ErrorIs(t, err, nil, "%s", number)
		check.Equal(t, got, want, "%s", number)
	}
	for _, other := range []string{`{}`, `pong`, `{"version":{"number":"latest"}}`, `{"version":7}`} {
		check.ErrorContains(t, open(t, fake(t, other)).Probe(t.Context()), "something else", "%s", other)
	}
}

// TestReasonsHaveNoValues: a later version's reason shows the value that it could
// not take.
func TestReasonsHaveNoValues(t *testing.T) {
	err := result{Status: 400, Error: &failure{"document_parsing_exception",
		"[1:9] failed to parse field [limits] of type [long] in document with id 'a'. Preview of field's value: 'my secret'"}}.meaning()
	check.ErrorIs(check.Must(t), err, records.ErrRefused)
	check.ErrorContains(t, err, "[limits]")
	check.Lacks(t, err.Error(), "my secret")
	long := result{Status: 400, Error: &failure{"x", strings.Repeat("ä", 5000)}}.meaning()
	if len(long.Error()) > 400 {
		t.Errorf("a reason has %d bytes", len(long.Error()))
	}
}

func TestOpenRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	check.NoError(t, os.WriteFile(empty, []byte("none"), 0o600))
	for want, cfg := range map[string]Config{
		"no hosts": {Index: "x"}, "index pattern": {Hosts: []string{"h:1"}, Index: "%d"},
		"PEM form":     {Hosts: []string{"h:1"}, Index: "x", Certificate: empty},
		"no such file": {Hosts: []string{"h:1"}, Index: "x", Certificate: empty + "x"},
	} {
		s, err := Open(cfg)
		check.ErrorContains(t, err, want)
		if err == nil {
			_ = s.Close()
		}
	}
}

// fake answers everything with a text.
func fake(t *testing.T, text string) Config {
	t.Helper()
	listener := httptestServer(t, text)
	return Config{Protocol: "http", Hosts: []string{listener}, Index: "x", Records: records.Config{BackoffMax: time.Millisecond}}
}
