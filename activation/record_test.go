package activation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
		check.Equal(t, string(c.ack.Shrink().Encode()), c.want, "%s", c.ack.Kind)
		check.That(t, c.ack.FreesSlot() == (c.ack.Kind != Result), "%s frees a slot: %v", c.ack.Kind, c.ack.FreesSlot())
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
		_, err := DecodeAck([]byte(bad))
		check.That(t, err != nil, "took %s", bad)
	}
	a, err := DecodeAck([]byte(`{"transid":["t",1],"response":` + id + `,"isSystemError":null}`))
	check.NoError(t, err)
	check.Equal(t, a.Kind, Result)
	check.That(t, a.Record == nil, "%+v, %v", a, err)
}

func TestInstance(t *testing.T) {
	i := Instance{ID: 3, UserMemory: GB}
	check.Equal(t, i.String(), "invoker3")
	check.Equal(t, i.Topic(), "invoker3")
	i.UniqueName, i.DisplayedName = "host-a", "shown"
	check.Equal(t, i.String(), "invoker3/host-a/shown")
	i.BusyMemory, i.Tags = number(5*B), []string{"gpu"}
	want := `{"busyMemory":"5 B","dedicatedNamespaces":[],"displayedName":"shown","instance":3,"instanceType":"invoker","tags":["gpu"],"uniqueName":"host-a","userMemory":"1073741824 B"}`
	check.Equal(t, string(i.Encode()), want)
	g, err := DecodePing([]byte(`{"name":` + want + `}`))
	check.NoError(t, err)
	check.That(check.Must(t), g.Enabled, "%+v, %v", g, err)
	check.Equal(t, string(g.Instance.Encode()), want)
	for _, bad := range []string{`{}`, `{"name":{}}`, `{"name":` + strings.Replace(want, "invoker", "controller", 1) + `}`} {
		_, err := DecodePing([]byte(bad))
		check.That(t, err != nil, "took %s", bad)
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
		_, err := DecodeRecord(without(t, doc, path))
		check.That(t, (err != nil) == required, "without %s: %v", path, err)
	}
	_, err := DecodeRecord([]byte(strings.Replace(doc, `"statusCode":1`, `"statusCode":4`, 1)))
	check.That(t, err != nil, "took a status of 4")
	check.Contains(t, doc, `"response":{"result":{"error":"a \"text\""},"size":7,"statusCode":1}`)
	check.Equal(t, string(ErrorValue(2, json.RawMessage(`[1e3]`)).Result), `{"error":[1e3]}`)
}

func TestShortenLogs(t *testing.T) {
	doc := []byte(`{"_id":"guest/1","logs":["aaaa","bbbb","cccc"],"response":{"result":1E+3}}`)
	once, ok := ShortenLogs(doc, 9)
	check.That(check.Must(t), ok, "%v %s", ok, once)
	check.That(check.Must(t), strings.HasPrefix(string(once), `{"_id":"guest/1","logs":["aaaa","bbbb","Logs were truncated`), "%v %s", ok, once)
	check.That(t, strings.HasSuffix(string(once), `"response":{"result":1E+3}}`), "%v %s", ok, once)
	again, ok := ShortenLogs(once, 0)
	check.That(check.Must(t), ok, "%v %s", ok, again)
	check.Lacks(t, string(again), "aaaa")
	_, ok = ShortenLogs(again, 0)
	check.That(t, !ok, "shortened for ever")
	for _, not := range []string{`{"logs":["a"]}`, `{"logs":[]}`, `{}`, `{`, `{"logs":5}`} {
		got, ok := ShortenLogs([]byte(not), 100)
		check.That(t, !ok, "shortened %s to %s", not, got)
	}
}
