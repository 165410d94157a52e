package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func record1(ns, id string, start int, extra string) string {
	return fmt.Sprintf(`{"_id":"%s/%s","activationId":"%s","namespace":"%s","name":"hello","version":"0.0.1","publish":false,`+
		`"start":%d,"end":%d,"annotations":[{"key":"path","value":"%s/hello"}%s],"response":{"statusCode":2},"entityType":"activation"}`,
		ns, id, id, ns, start, start+7, ns, extra)
}

func TestActivationViews(t *testing.T) {
	_, srv := newDB(t)
	docs := []string{
		record1("guest", "a1", 100, ""), record1("guest", "a2", 200, ""), record1("guest", "a3", 300, `,{"key":"binding","value":"guest/bound"}`),
		record1("guesty", "b1", 150, ""),
	}
	code, body := call(t, srv, "POST", "/whisks/_bulk_docs", `{"docs":[`+strings.Join(docs, ",")+`]}`)
	check.Equal(check.Must(t), code, 201, "%s", body)
	cases := []struct{ name, query, want string }{
		{"newest first", `whisks.v2.1.0/_view/activations?startkey=["guest",{}]&endkey=["guest",0]&descending=true&reduce=false`, "a3 a2 a1"},
		{"high sentinel of OpenWhisk", `whisks.v2.1.0/_view/activations?startkey=["guest","\ufff0"]&endkey=["guest",0]&descending=true&reduce=false`, "a3 a2 a1"},
		{"since and upto inclusive", `whisks.v2.1.0/_view/activations?startkey=["guest",200]&endkey=["guest",100]&descending=true&reduce=false`, "a2 a1"},
		{"oldest first", `whisks.v2.1.0/_view/activations?startkey=["guest",100]&endkey=["guest",200]&reduce=false`, "a1 a2"},
		{"limit and skip", `whisks.v2.1.0/_view/activations?startkey=["guest",{}]&endkey=["guest",0]&descending=true&reduce=false&limit=1&skip=1`, "a2"},
		{"other namespace only", `whisks.v2.1.0/_view/activations?key=["guesty",150]&reduce=false`, "b1"},
		{"by name", `whisks-filters.v2.1.1/_view/activations?startkey=["guest/hello",{}]&endkey=["guest/hello",0]&descending=true&reduce=false`, "a2 a1"},
		{"by binding", `whisks-filters.v2.1.1/_view/activations?startkey=["guest/bound/hello",0]&endkey=["guest/bound/hello",{}]&reduce=false`, "a3"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, body := call(t, srv, "GET", "/whisks/_design/"+strings.NewReplacer(`"`, "%22", "{", "%7B", "}", "%7D", "\\", "%5C").Replace(c.query), "")
			var answer struct {
				Rows []struct{ Value struct{ ActivationID string } }
			}
			check.NoError(t, json.Unmarshal([]byte(body), &answer), "%s", body)
			var ids []string
			for _, r := range answer.Rows {
				ids = append(ids, r.Value.ActivationID)
			}
			check.Equal(t, strings.Join(ids, " "), c.want)
		})
	}
	_, body = call(t, srv, "GET", `/whisks/_design/whisks.v2.1.0/_view/activations?startkey=["guest",0]&endkey=["guest",%7B%7D]`, "")
	check.Equal(t, body, `{"rows":[{"key":null,"value":3}]}`)
	_, body = call(t, srv, "GET", `/whisks/_design/whisks.v2.1.0/_view/activations?key=["guest",100]&reduce=false`, "")
	for _, want := range []string{`"duration":7`, `"end":107`, `"statusCode":2`} {
		check.Contains(t, body, want)
	}
}

func TestEntityViews(t *testing.T) {
	_, srv := newDB(t)
	put := func(id, body string) {
		t.Helper()
		code, answer := call(t, srv, "PUT", "/whisks/"+strings.ReplaceAll(id, "/", "%2F"), body)
		check.Equal(check.Must(t), code, 201, "%s", answer)
	}
	put("guest/a", `{"namespace":"guest","name":"a","exec":{"kind":"x","binary":true},"parameters":[],"updated":1}`)
	put("guest/p/b", `{"namespace":"guest/p","name":"b","exec":{"kind":"x"},"parameters":[],"updated":2}`)
	put("guest/p", `{"namespace":"guest","name":"p","binding":{},"publish":true,"parameters":[],"updated":3}`)
	put("guest/q", `{"namespace":"guest","name":"q","binding":{"name":"p","namespace":"guest"},"parameters":[],"updated":4}`)
	put("guest/t", `{"namespace":"guest","name":"t","parameters":[],"updated":5}`)
	put("guest/r", `{"namespace":"guest","name":"r","trigger":{"name":"t"},"updated":6}`)
	for view, want := range map[string]string{
		"actions": "a b", "packages": "p q", "packages-public": "p",
	} {
		_, body := call(t, srv, "GET", "/whisks/_design/whisks.v2.1.0/_view/"+view+`?reduce=false&startkey=["guest",0]&endkey=["guest",%7B%7D]`, "")
		var answer struct {
			Rows []struct{ Value json.RawMessage }
		}
		check.NoError(t, json.Unmarshal([]byte(body), &answer))
		var names []string
		for _, r := range answer.Rows {
			var v struct{ Name string }
			if json.Unmarshal(r.Value, &v) == nil {
				names = append(names, v.Name)
			}
		}
		check.Equal(t, strings.Join(names, " "), want, "%s", view)
	}
	_, body := call(t, srv, "GET", `/whisks/_design/whisks.v2.1.0/_view/actions?reduce=false&key=["guest/p",2]&include_docs=true`, "")
	check.Contains(t, body, `"exec":{"binary":false}`)
	check.Contains(t, body, `"_id":"guest/p/b"`)
}

func TestBlockedNamespaces(t *testing.T) {
	_, srv := newDB(t)
	docs := `{"docs":[{"_id":"good","subject":"good!","namespaces":[{"name":"good","uuid":"u1","key":"k1"}]},
		{"_id":"bad","subject":"bad!!","blocked":true,"namespaces":[{"name":"bad","uuid":"u2","key":"k2"}]},
		{"_id":"none/limits","concurrentInvocations":0},{"_id":"some/limits","concurrentInvocations":5}]}`
	code, body := call(t, srv, "POST", "/whisks/_bulk_docs", docs)
	check.Equal(check.Must(t), code, 201, "%s", body)
	_, body = call(t, srv, "GET", "/whisks/_design/namespaceThrottlings/_view/blockedNamespaces?stale=update_after&descending=true&reduce=false", "")
	check.Lacks(t, body, "good")
	check.Lacks(t, body, "some")
	check.Contains(t, body, `"key":"bad"`)
	check.Contains(t, body, `"key":"none"`)
	_, body = call(t, srv, "GET", `/whisks/_design/subjects.v2.0.0/_view/identities?key=["u1","k1"]`, "")
	check.Contains(t, body, `"_id":"good/limits"`)
}
