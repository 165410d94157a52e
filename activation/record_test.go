package activation

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestShrink(t *testing.T) {
	r := &Record{ActivationID: "id", Response: Response{StatusCode: StatusWhiskError}}
	tid := NewTransID("t", 1, false)
	inst := Instance{UserMemory: GB}
	for _, c := range []struct {
		ack  Ack
		want string
	}{
		{NewResult(tid, r), `{"response":"id","transid":["t",1]}`},
		{NewCombined(tid, r, inst), `{"instance":{"dedicatedNamespaces":[],"instance":0,"instanceType":"invoker","tags":[],"userMemory":"1073741824 B"},"isSystemError":true,"response":"id","transid":["t",1]}`},
		{NewCompletion(tid, "id", true, inst), `{"activationId":"id","instance":{"dedicatedNamespaces":[],"instance":0,"instanceType":"invoker","tags":[],"userMemory":"1073741824 B"},"isSystemError":true,"transid":["t",1]}`},
	} {
		if got := string(c.ack.Shrink().Encode()); got != c.want {
			t.Errorf("%s: %s", c.ack.Kind, got)
		}
		if c.ack.FreesSlot() != (c.ack.Kind != Result) {
			t.Errorf("%s frees a slot: %v", c.ack.Kind, c.ack.FreesSlot())
		}
	}
}

func TestDecodeAckRefuses(t *testing.T) {
	inst := string(Instance{UserMemory: GB}.Encode())
	id := `"` + strings.Repeat("0a", 16) + `"`
	for _, bad := range []string{
		`{}`, `[]`, `{"transid":["t",1]}`, `{"response":` + id + `}`, `{"transid":["t",1],"response":5}`,
		`{"instance":` + inst + `,"transid":["t",1]}`, `{"instance":{},"activationId":` + id + `,"transid":["t",1]}`,
		`{"transid":["t",1],"response":"short"}`, `{"transid":["t",1],"response":{}}`,
	} {
		if _, err := DecodeAck([]byte(bad)); err == nil {
			t.Errorf("took %s", bad)
		}
	}
	a, err := DecodeAck([]byte(`{"transid":["t",1],"response":` + id + `,"isSystemError":null}`))
	if err != nil || a.Kind != Result || a.Record != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestInstance(t *testing.T) {
	i := Instance{ID: 3, UserMemory: GB}
	if i.String() != "invoker3" || i.Topic() != "invoker3" {
		t.Errorf("%s", i)
	}
	i.UniqueName, i.DisplayedName = "host-a", "shown"
	if i.String() != "invoker3/host-a/shown" {
		t.Errorf("%s", i)
	}
	i.BusyMemory, i.Tags = number(5*B), []string{"gpu"}
	want := `{"busyMemory":"5 B","dedicatedNamespaces":[],"displayedName":"shown","instance":3,"instanceType":"invoker","tags":["gpu"],"uniqueName":"host-a","userMemory":"1073741824 B"}`
	if got := string(i.Encode()); got != want {
		t.Errorf("%s", got)
	}
	g, err := DecodePing([]byte(`{"name":` + want + `}`))
	if err != nil || !g.Enabled || string(g.Instance.Encode()) != want {
		t.Errorf("%+v, %v", g, err)
	}
	for _, bad := range []string{`{}`, `{"name":{}}`, `{"name":` + strings.Replace(want, "invoker", "controller", 1) + `}`} {
		if _, err := DecodePing([]byte(bad)); err == nil {
			t.Errorf("took %s", bad)
		}
	}
}

func TestRecordNeedsEveryField(t *testing.T) {
	duration := int64(3)
	r := &Record{
		ActivationID: ID(strings.Repeat("0a", 16)), Namespace: "guest", Name: "a", Subject: "guest", Version: "0.0.1",
		Cause: ID(strings.Repeat("0b", 16)), Start: 1, End: 4, Duration: &duration, Response: ErrorResponse(1, `a "text"`).WithSize(7),
	}
	doc := string(r.Document(9))
	for path, required := range map[string]bool{
		"activationId": true, "annotations": true, "end": true, "logs": true, "name": true, "namespace": true, "publish": true,
		"response": true, "response.statusCode": true, "start": true, "subject": true, "version": true,
		"cause": false, "duration": false, "response.result": false, "response.size": false, "updated": false, "entityType": false,
	} {
		if _, err := DecodeRecord(without(t, doc, path)); (err != nil) != required {
			t.Errorf("without %s: %v", path, err)
		}
	}
	if _, err := DecodeRecord([]byte(strings.Replace(doc, `"statusCode":1`, `"statusCode":4`, 1))); err == nil {
		t.Error("took a status of 4")
	}
	if !strings.Contains(doc, `"response":{"result":{"error":"a \"text\""},"size":7,"statusCode":1}`) {
		t.Errorf("%s", doc)
	}
	if got := string(ErrorValue(2, json.RawMessage(`[1e3]`)).Result); got != `{"error":[1e3]}` {
		t.Errorf("%s", got)
	}
}

func TestShortenLogs(t *testing.T) {
	doc := []byte(`{"_id":"guest/1","logs":["aaaa","bbbb","cccc"],"response":{"result":1E+3}}`)
	once, ok := ShortenLogs(doc, 9)
	if !ok || !strings.HasPrefix(string(once), `{"_id":"guest/1","logs":["aaaa","bbbb","Logs were truncated`) || !strings.HasSuffix(string(once), `"response":{"result":1E+3}}`) {
		t.Errorf("%v %s", ok, once)
	}
	again, ok := ShortenLogs(once, 0)
	if !ok || strings.Contains(string(again), "aaaa") {
		t.Errorf("%v %s", ok, again)
	}
	if _, ok := ShortenLogs(again, 0); ok {
		t.Error("shortened for ever")
	}
	for _, not := range []string{`{"logs":["a"]}`, `{"logs":[]}`, `{}`, `{`, `{"logs":5}`} {
		if got, ok := ShortenLogs([]byte(not), 100); ok {
			t.Errorf("shortened %s to %s", not, got)
		}
	}
}
