package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// limits of an action in milliseconds, MB and MB; 0 is the default.
func limits(timeout, memory, logs int) *whisk.Limits {
	l := &whisk.Limits{}
	for at, value := range map[**int]int{&l.Timeout: timeout, &l.Memory: memory, &l.Logsize: logs} {
		if value != 0 {
			*at = &value
		}
	}
	return l
}

// create deploys an action.
func (p *platform) create(name, kind, code string, l *whisk.Limits) {
	p.t.Helper()
	p.insert(&whisk.Action{Name: name, Exec: &whisk.Exec{Kind: kind, Code: &code}, Limits: l})
}

func (p *platform) insert(a *whisk.Action) {
	p.t.Helper()
	_, _, err := p.c.Actions.Insert(a, true)
	check.NoError(p.t, err, "create %s", a.Name)
}

// call invokes an action and waits. It returns the outcome by the acks and the record.
func (p *platform) call(name string, args map[string]any) outcome {
	p.t.Helper()
	o := p.started(name, args, true)
	return p.finish(o)
}

// started invokes an action without judging the answer.
func (p *platform) started(name string, args map[string]any, blocking bool) activation.ID {
	p.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	_, res, err := p.c.Actions.Invoke(name, args, blocking, false)
	check.That(check.Must(p.t), res != nil, "invoke %s: %v", name, err)
	id := activation.ID(res.Header.Get("X-Openwhisk-Activation-Id"))
	check.That(check.Must(p.t), id != "", "invoke %s: %s without an activation: %v", name, res.Status, err)
	return id
}

// outcome is all that is known of an activation that has ended.
type outcome struct {
	id     activation.ID
	record *activation.Record
	acks   []activation.Ack
}

// finish waits for the ack and the record of an activation, and checks the rules for
// both: one ack that frees the slot, last; at most one result before it; one record.
func (p *platform) finish(id activation.ID) outcome {
	p.t.Helper()
	o := outcome{id: id, acks: p.completed(id)}
	check.AtMost(p.t, len(o.acks), 2, "activation %s: acks %v", id, kinds(o.acks))
	for i, ack := range o.acks {
		check.Equal(p.t, ack.FreesSlot(), i == len(o.acks)-1, "activation %s: ack %d of %v", id, i, kinds(o.acks))
	}
	o.record = p.db.AwaitRecord(p.t, id)
	return o
}

func kinds(acks []activation.Ack) (all []string) {
	for _, a := range acks {
		all = append(all, a.Kind.String())
	}
	return all
}

// text is the error that the user reads, or the whole result.
func (o outcome) text() string {
	var e struct{ Error *json.RawMessage }
	if json.Unmarshal(o.record.Response.Result, &e) == nil && e.Error != nil {
		var s string
		if json.Unmarshal(*e.Error, &s) == nil {
			return s
		}
		return string(*e.Error)
	}
	return string(o.record.Response.Result)
}

// logged are the texts of the log, without times.
func (o outcome) logged() []string {
	var all []string
	for _, line := range o.record.Logs {
		if len(line) > 31 {
			line = line[31:]
		}
		all = append(all, line)
	}
	return all
}

// want checks an activation's end, and that the text has each of texts.
func (o outcome) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	check.Equal(t, o.record.Response.StatusCode, code, "%.300q", o.text())
	for _, text := range texts { // results may be long
		check.That(t, strings.Contains(o.text(), text), "%.300q, want %.300q in it", o.text(), text)
	}
}

// request asks for a page of the API, as a browser does; more changes the request.
func (p *platform) request(method, path, body string, more ...func(*http.Request)) (res *http.Response, text string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.s.Info().APIHost+path, strings.NewReader(body))
	check.NoError(p.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, do := range more {
		do(req)
	}
	res, err = http.DefaultClient.Do(req)
	check.NoError(p.t, err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Error(err)
	}
	return res, string(all)
}

// soon repeats a request until it has an answer.
func soon[T any](t *testing.T, ask func() (T, error)) T {
	t.Helper()
	var answer T
	peertest.Until(t, "no answer", func() string {
		var err error
		if answer, err = ask(); err != nil {
			return fmt.Sprint(err)
		}
		return ""
	})
	return answer
}
