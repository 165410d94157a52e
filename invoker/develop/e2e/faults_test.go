package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// fault answers a request instead of the database.
type fault func(w http.ResponseWriter)

// faults is a switch before the database.
type faults struct {
	mu   sync.Mutex
	part string // of the path of requests that are spoilt
	do   fault
	left int // how often it strikes
}

func (f *faults) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if do := f.aimedAt(r); do != nil {
			do(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// strike spoils so many requests that have the part in their path.
func (f *faults) strike(part string, times int, do fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.part, f.left, f.do = part, times, do
}

func (f *faults) aimedAt(r *http.Request) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 || !strings.Contains(r.URL.Path, f.part) {
		return nil
	}
	f.left--
	return f.do
}

// remaining reports how many strikes are left.
func (f *faults) remaining() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left
}

func answerStatus(code int) fault {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"error":"spoilt","reason":"status ` + strconv.Itoa(code) + `"}`))
	}
}

func answerText(text string) fault {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `"1-abc"`)
		_, _ = w.Write([]byte(text))
	}
}

// hangUp breaks the connection without an answer.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// halfBody promises more than it sends.
func halfBody(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", `"1-abc"`)
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`[{"ok":true,"id":"gue`))
	panic(http.ErrAbortHandler)
}

const (
	textGone         = "Action could not be found or may have been deleted."
	textIncompatible = "Action version is not compatible and cannot be invoked."
	textUnfetchable  = "Action could not be fetched."
	always           = 1 << 30
)

// TestUnreadableActions lets the database answer nonsense when actions are
// read, their code included, and tries again when it is well.
func TestUnreadableActions(t *testing.T) {
	withEachParts(t, func(t *testing.T, w parts) {
		f := &faults{}
		p := start(t, w, setup{store: f.wrap})
		large := "//" + strings.Repeat("x", 100_000) + "\n" + nodeHello
		for _, c := range []struct {
			name, code, part string
			do               fault
			status           int
			text             string
		}{
			{"401", nodeHello, "guest/", answerStatus(401), 3, textUnfetchable},
			{"404", nodeHello, "guest/", answerStatus(404), 1, textGone},
			{"429", nodeHello, "guest/", answerStatus(429), 3, textUnfetchable},
			{"500", nodeHello, "guest/", answerStatus(500), 3, textUnfetchable},
			{"hangs up", nodeHello, "guest/", hangUp, 3, textUnfetchable},
			{"half a body", nodeHello, "guest/", halfBody, 3, textUnfetchable},
			{"no JSON", nodeHello, "guest/", answerText("<html>"), 3, textUnfetchable},
			{"another document", nodeHello, "guest/", answerText(`{"_id":"guest/x","_rev":"1-abc"}`), 3, textIncompatible},
			{"unknown kind", nodeHello, "guest/", answerText(unknownKind), 3, textIncompatible},
			{"no code", large, "/codefile", answerStatus(404), 1, textGone},
			{"half of the code", large, "/codefile", halfBody, 3, textUnfetchable},
			{"code of another kind", large, "/codefile", answerText("PK\x03\x04 not a zip at all"), 2, ""},
			{"no bytes of code", large, "/codefile", answerText(""), 2, ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := p.at(t)
				p.create("spoilt", "nodejs:20", c.code, nil)
				part := c.part
				if part == "/codefile" {
					part = p.attachment("spoilt")
				} else {
					part += "spoilt"
				}
				f.strike(part, always, c.do)
				o := p.call("spoilt", map[string]any{"name": "Ada"})
				o.want(t, c.status, c.text)
				f.strike("", 0, nil)
				if c.status == activation.StatusDeveloperError {
					return // what could be read is kept by its revision
				}
				for range 3 { // more failures than these allow make an invoker unhealthy
					p.call("spoilt", map[string]any{"name": "Ada"}).want(t, 0, "hi Ada")
				}
			})
		}
	})
}

// unknownKind is an action that nothing here can run.
const unknownKind = `{"_id":"guest/spoilt","_rev":"1-abc","annotations":[],"entityType":"action",
"exec":{"kind":"cobol:85","code":"x","binary":false},"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},
"name":"spoilt","namespace":"guest","parameters":[],"publish":false,"updated":1,"version":"0.0.1"}`

// attachment is the name under which the database keeps an action's code.
func (p *platform) attachment(name string) string {
	p.t.Helper()
	doc, err := p.db.Get(p.t.Context(), p.db.Names().Whisks, "guest/"+name)
	if err != nil {
		p.t.Fatal(err)
	}
	_, after, found := strings.Cut(string(doc), `"_attachments":{"`)
	at, _, _ := strings.Cut(after, `"`)
	if !found || at == "" {
		p.t.Fatalf("the code of %s is no attachment: %.300s", name, doc)
	}
	return "/" + at
}

// TestUnwritableRecords lets the database refuse records for a while. Each
// record arrives in the end, none twice; until then the offset waits.
func TestUnwritableRecords(t *testing.T) {
	withEachParts(t, func(t *testing.T, w parts) {
		f := &faults{}
		p := start(t, w, setup{store: f.wrap, env: map[string]string{"CONFIG_whisk_gpu_records_linger": "5 ms"}})
		p.create("kept", "nodejs:20", nodeHello, nil)
		p.call("kept", map[string]any{"name": "Ada"}).want(t, 0, "hi Ada")
		for _, c := range []struct {
			name  string
			times int
			do    fault
		}{
			{"401", 3, answerStatus(401)},
			{"404", 3, answerStatus(404)},
			{"429", 3, answerStatus(429)},
			{"500", 3, answerStatus(500)},
			{"503", 3, answerStatus(503)},
			{"hangs up", 3, hangUp},
			{"half a body", 3, halfBody},
			{"no JSON", 3, answerText("<html>it works</html>")},
			{"an answer for another number", 2, answerText("[]")},
			{"too large while in company", 1, answerStatus(413)},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := p.at(t)
				f.strike("_bulk_docs", c.times, c.do)
				ids := []activation.ID{
					p.started("kept", map[string]any{"name": "Ada"}, true), // the caller need not wait for records
					p.started("kept", map[string]any{"name": "Bob"}, false),
				}
				for _, id := range ids {
					p.finish(id).want(t, 0, "hi ")
				}
				if left := f.remaining(); left > 0 {
					t.Errorf("the database was to fail %d more times", left)
				}
				p.atRest()
			})
		}
		t.Run("offset waits", func(t *testing.T) { p.at(t).offsetWaits(f) })
	})
}

// offsetWaits: a message is not committed before its record is safe, and the
// status gives the reason.
func (p *platform) offsetWaits(f *faults) {
	p.atRest()
	f.strike("_bulk_docs", always, answerStatus(500))
	before := p.status().Kafka.Feed.Committed
	id := p.started("kept", map[string]any{"name": "Ada"}, true)
	peertest.Until(p.t, "the status names the fault", func() string {
		s := p.status()
		if s.Healthy || s.CouchDB.Writes.LastError == "" || !strings.Contains(strings.Join(s.Reasons, " "), "writing records") {
			return strings.Join(s.Reasons, ", ")
		}
		if s.Work.InFlight != 0 { // its container may be on the way back
			return fmt.Sprint(s.Work.InFlight, " in flight")
		}
		return ""
	})
	if s := p.status(); s.Kafka.Feed.Committed != before || s.Kafka.Feed.Open != 1 {
		p.t.Errorf("before the record is safe: %+v", s.Kafka.Feed)
	}
	f.strike("", 0, nil)
	p.finish(id).want(p.t, 0, "hi Ada")
	p.atRest()
}
