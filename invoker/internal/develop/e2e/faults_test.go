package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// answerText answers with a document.
func answerText(text string) harness.Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `"1-abc"`)
		_, _ = w.Write([]byte(text))
	}
}

// halfBody announces more bytes than it sends.
func halfBody(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
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
)

// TestUnreadableActions lets the database answer nonsense when actions are
// read, their code included, and tries again when it is well.
func TestUnreadableActions(t *testing.T) {
	withEachParts(t, func(t *testing.T, w parts) {
		f := &harness.Faults{}
		p := start(t, w, setup{store: f.Wrap})
		large := "//" + strings.Repeat("x", 100_000) + "\n" + nodeHello
		for _, c := range []struct {
			name, code, part string
			do               harness.Fault
			status           int
			text             string
		}{
			{"401", nodeHello, "guest/", harness.AnswerStatus(401), 3, textUnfetchable},
			{"404", nodeHello, "guest/", harness.AnswerStatus(404), 1, textGone},
			{"429", nodeHello, "guest/", harness.AnswerStatus(429), 3, textUnfetchable},
			{"500", nodeHello, "guest/", harness.AnswerStatus(500), 3, textUnfetchable},
			{"hangs up", nodeHello, "guest/", harness.HangUp, 3, textUnfetchable},
			{"half a body", nodeHello, "guest/", halfBody, 3, textUnfetchable},
			{"no JSON", nodeHello, "guest/", answerText("<html>"), 3, textUnfetchable},
			{"another document", nodeHello, "guest/", answerText(`{"_id":"guest/x","_rev":"1-abc"}`), 3, textIncompatible},
			{"unknown kind", nodeHello, "guest/", answerText(unknownKind), 3, textIncompatible},
			{"no code", large, "/codefile", harness.AnswerStatus(404), 1, textGone},
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
				f.Strike(part, harness.Always, c.do)
				o := p.call("spoilt", ada)
				o.want(t, c.status, c.text)
				f.Clear()
				if c.status == activation.StatusDeveloperError {
					return // keep the readable part by its revision
				}
				for range 3 { // more failures than these make an invoker unhealthy
					p.greets("spoilt")
				}
			})
		}
	})
}

// unknownKind is an action of a kind that cannot run here.
const unknownKind = `{"_id":"guest/spoilt","_rev":"1-abc","annotations":[],"entityType":"action",
"exec":{"kind":"cobol:85","code":"x","binary":false},"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},
"name":"spoilt","namespace":"guest","parameters":[],"publish":false,"updated":1,"version":"0.0.1"}`

// attachment is the name under which the database keeps an action's code.
func (p *platform) attachment(name string) string {
	p.t.Helper()
	doc, err := p.db.Get(p.t.Context(), p.db.Names().Whisks, "guest/"+name)
	check.NoError(p.t, err)
	_, after, found := strings.Cut(string(doc), `"_attachments":{"`)
	check.That(check.Must(p.t), found, "the code of %s is no attachment: %.300s", name, doc)
	at, _, _ := strings.Cut(after, `"`)
	check.That(check.Must(p.t), at != "", "the code of %s has no name: %.300s", name, doc)
	return "/" + at
}

// TestUnwritableRecords lets the database refuse records for a while. Each
// record arrives in the end, none twice; until then the offset waits.
func TestUnwritableRecords(t *testing.T) {
	withEachParts(t, func(t *testing.T, w parts) {
		f := &harness.Faults{}
		p := start(t, w, setup{store: f.Wrap, env: map[string]string{"CONFIG_whisk_gpu_records_linger": "5 ms"}})
		p.hello("kept")
		p.greets("kept")
		for _, c := range []struct {
			name  string
			times int
			do    harness.Fault
		}{
			{"401", 3, harness.AnswerStatus(401)},
			{"404", 3, harness.AnswerStatus(404)},
			{"429", 3, harness.AnswerStatus(429)},
			{"500", 3, harness.AnswerStatus(500)},
			{"503", 3, harness.AnswerStatus(503)},
			{"hangs up", 3, harness.HangUp},
			{"half a body", 3, halfBody},
			{"no JSON", 3, answerText("<html>it works</html>")},
			{"an answer for another number", 2, answerText("[]")},
			{"too large while in company", 1, harness.AnswerStatus(413)},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := p.at(t)
				f.Strike("_bulk_docs", c.times, c.do)
				ids := []activation.ID{
					p.started("kept", ada, true), // the caller need not wait for records
					p.started("kept", map[string]any{"name": "Bob"}, false),
				}
				for _, id := range ids {
					p.finish(id).want(t, 0, "hi ")
				}
				check.AtMost(t, f.Remaining(), 0, "times that the database was to fail")
				p.atRest()
			})
		}
		t.Run("offset waits", func(t *testing.T) { p.at(t).offsetWaits(f) })
	})
}

// offsetWaits: a message is not committed before its record is safe, and the
// status gives the reason.
func (p *platform) offsetWaits(f *harness.Faults) {
	p.atRest()
	f.Strike("_bulk_docs", harness.Always, harness.AnswerStatus(500))
	before := p.status().Kafka.Feed.Committed
	id := p.started("kept", ada, true)
	p.admin.Await(p.t, "the status names the fault", func(s harness.Status) bool {
		named := s.CouchDB.Writes.LastError != "" && strings.Contains(strings.Join(s.Reasons, " "), "writing records")
		return !s.Healthy && named && s.Work.InFlight == 0 // its container may be on the way back
	})
	feed := p.status().Kafka.Feed
	check.Equal(p.t, feed.Committed, before, "before the record is safe")
	check.Equal(p.t, feed.Open, 1, "before the record is safe")
	f.Clear()
	p.finish(id).want(p.t, 0, "hi Ada")
	p.atRest()
}
