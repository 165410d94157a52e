package invoker

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// epoch is the begin of the transaction of the messages of these tests. at returns instants
// after epoch, with a fraction that a record does not show.
const epoch = 1_700_000_000_000

func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(epoch + ms).Add(700 * time.Microsecond)
}

// message is a message whose every word differs from those of its action.
func message() *activation.Message {
	return &activation.Message{
		TransID:      activation.NewTransID("tid", epoch, false),
		Action:       activation.ActionRef{Path: "provider/pkg", Name: "act", Version: "0.0.7"},
		User:         activation.Identity{Subject: "someone", Namespace: activation.Namespace{Name: "caller", UUID: "u"}},
		ActivationID: "0123456789abcdef0123456789abcdef",
	}
}

func acted() *activation.Action {
	a := &activation.Action{Namespace: "provider/pkg", Name: "act", Version: "0.0.9"}
	a.Exec.Kind = "python:3"
	a.Limits = activation.Limits{TimeoutMillis: 1000, MemoryMB: 256, LogsMB: 10, Concurrency: 1}
	return a
}

// ofPending is a pending activation as far as its record needs it.
func ofPending(m *activation.Message, a *activation.Action) *pending {
	return &pending{Delivery: Delivery{Message: m}, action: a}
}

// ran returns a pending activation with the times of its run.
func ran(m *activation.Message, t explain.Trace) *pending {
	p := ofPending(m, acted())
	p.trace = t
	return p
}

const acceptedLimits = `{"concurrency":1,"logs":10,"memory":256,"timeout":1000}`

// The whole document of a record, as the database gets it. The owner comes from the message,
// the function from the action.
func TestRecordDocument(t *testing.T) {
	success := activation.Response{Result: json.RawMessage(`{"a":1}`)}.WithSize(7)
	caused := message()
	caused.Cause, caused.Action.Binding = "fedcba9876543210fedcba9876543210", "caller/bound"
	unversioned := message()
	unversioned.Action.Version = ""
	head := `{"_id":"caller/0123456789abcdef0123456789abcdef","activationId":"0123456789abcdef0123456789abcdef","annotations":[`
	for name, c := range map[string]struct {
		rec  *activation.Record
		want string
	}{
		"plain": {
			ran(message(), explain.Trace{RunStart: at(50), RunEnd: at(60)}).record(success, at(99)),
			head + `{"key":"path","value":"provider/pkg/act"},{"key":"waitTime","value":50},{"key":"kind","value":"python:3"},` +
				`{"key":"timeout","value":false},{"key":"limits","value":` + acceptedLimits + `}],` +
				`"duration":10,"end":1700000000060,"entityType":"activation","logs":[],"name":"act","namespace":"caller","publish":false,` +
				`"response":{"result":{"a":1},"size":7,"statusCode":0},"start":1700000000050,"subject":"someone","updated":5,"version":"0.0.9"}`,
		},
		"in a sequence, by a binding": {
			ran(caused, explain.Trace{RunStart: at(50), RunEnd: at(60)}).record(success, at(99)),
			head + `{"key":"causedBy","value":"sequence"},{"key":"binding","value":"caller/bound"},` +
				`{"key":"path","value":"provider/pkg/act"},{"key":"waitTime","value":50},{"key":"kind","value":"python:3"},` +
				`{"key":"timeout","value":false},{"key":"limits","value":` + acceptedLimits + `}],"cause":"fedcba9876543210fedcba9876543210",` +
				`"duration":10,"end":1700000000060,"entityType":"activation","logs":[],"name":"act","namespace":"caller","publish":false,` +
				`"response":{"result":{"a":1},"size":7,"statusCode":0},"start":1700000000050,"subject":"someone","updated":5,"version":"0.0.9"}`,
		},
		"fallback": {
			ofPending(caused, nil).record(appError("no").response, at(70)),
			head + `{"key":"causedBy","value":"sequence"},{"key":"path","value":"provider/pkg/act"},{"key":"kind","value":"unknown"}],` +
				`"cause":"fedcba9876543210fedcba9876543210","duration":0,"end":1700000000070,"entityType":"activation","logs":[],"name":"act",` +
				`"namespace":"caller","publish":false,"response":{"result":{"error":"no"},"statusCode":1},"start":1700000000070,` +
				`"subject":"someone","updated":5,"version":"0.0.7"}`,
		},
		"fallback without a version": {
			ofPending(unversioned, nil).record(appError("no").response, at(70)),
			head + `{"key":"path","value":"provider/pkg/act"},{"key":"kind","value":"unknown"}],"duration":0,"end":1700000000070,` +
				`"entityType":"activation","logs":[],"name":"act","namespace":"caller","publish":false,"response":{"result":{"error":"no"},"statusCode":1},` +
				`"start":1700000000070,"subject":"someone","updated":5,"version":"0.0.1"}`,
		},
	} {
		check.Equal(t, string(c.rec.Document(5)), c.want, "%s", name)
	}
}

// The times of a record: a run's own, or those of the init that failed, and
// with both the init put before the run without the gap. A wait is counted to
// the first exchange, and the limit holds for each exchange alone.
func TestRecordTimes(t *testing.T) {
	type want struct {
		start, end, wait int64
		init             int64 // -1: there was none
		timeout          bool
	}
	for name, c := range map[string]struct {
		at   explain.Trace
		want want
	}{
		"warm":                   {explain.Trace{RunStart: at(50), RunEnd: at(60)}, want{50, 60, 50, -1, false}},
		"cold":                   {explain.Trace{InitStart: at(20), InitEnd: at(45), RunStart: at(50), RunEnd: at(60)}, want{25, 60, 20, 25, false}},
		"failed init":            {explain.Trace{InitStart: at(20), InitEnd: at(45)}, want{20, 45, 20, 25, false}},
		"no container":           {explain.Trace{}, want{90, 90, 90, -1, false}},
		"at the limit":           {explain.Trace{RunStart: at(50), RunEnd: at(1050)}, want{50, 1050, 50, -1, true}},
		"below the limit":        {explain.Trace{RunStart: at(50), RunEnd: at(1049)}, want{50, 1049, 50, -1, false}},
		"init at the limit":      {explain.Trace{InitStart: at(20), InitEnd: at(1020)}, want{20, 1020, 20, 1000, true}},
		"only both over it":      {explain.Trace{InitStart: at(20), InitEnd: at(720), RunStart: at(730), RunEnd: at(1430)}, want{30, 1430, 20, 700, false}},
		"run over it, init none": {explain.Trace{InitStart: at(20), InitEnd: at(21), RunStart: at(30), RunEnd: at(1040)}, want{29, 1040, 20, 1, true}},
	} {
		rec := ran(message(), c.at).record(activation.Response{}, at(90))
		got := want{start: rec.Start - epoch, end: rec.End - epoch, init: -1}
		got.wait, _ = rec.Annotations.Number("waitTime")
		if ms, ok := rec.Annotations.Number("initTime"); ok {
			got.init = ms
		}
		over, _ := rec.Annotations.Get("timeout")
		got.timeout = string(over) == "true"
		check.Equal(t, got, c.want, "%s", name)
		check.Equal(t, *rec.Duration, rec.End-rec.Start, "%s", name)
	}
}

// kept is a log store that keeps everything in memory.
type kept struct {
	mu      sync.Mutex
	entries []string
}

func (k *kept) Write(entry []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries = append(k.entries, string(entry))
}

// A log file has the form of the original's DockerToActivationFileLogStore: the container's
// lines with four more members, then the activation without logs, with the id of the
// namespace. The record has the lines, too. Neither parameters nor keys are in the file.
func TestUserLogs(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		env.action("shown", func(a *activation.Action) { a.Namespace = "guest/pack" })
		env.setRun(func(int, []byte) proxy.Exchange { return answer(200, `{"shown":1}`) })
		env.logs = container.LogResult{
			Lines: []string{"2024-06-10T06:13:20.25Z        stdout: a"},
			Raw:   [][]byte{[]byte(`{"log":"a\n","stream":"stdout","time":"2024-06-10T06:13:20.25Z"}`)},
		}
		files := &kept{}
		env.userLogs = files
		_, stop := env.start(env.settings())
		env.invoke("shown", func(m *activation.Message) {
			m.User.Namespace = activation.Namespace{Name: "caller", UUID: "the-uuid"}
			m.Content = json.RawMessage(`{"password":"secret"}`)
		})
		synctest.Wait()
		stop()
		check.Equal(check.Must(t), len(files.entries), 1)
		check.That(check.Must(t), env.asked[0].Raw, "log request %+v", env.asked[0])
		entry := files.entries[0]
		lines := strings.SplitAfter(entry, "\n")
		id := string(env.records[0].ActivationID)
		want := `{"log":"a\n","stream":"stdout","time":"2024-06-10T06:13:20.25Z","activationId":"` + id +
			`","action":"guest/pack/shown","namespace":"caller","namespaceId":"the-uuid"}` + "\n"
		check.Equal(check.Must(t), len(lines), 3)
		check.Equal(check.Must(t), lines[0], want)
		check.Equal(check.Must(t), lines[2], "")
		var got map[string]any
		check.NoError(t, json.Unmarshal([]byte(lines[1]), &got))
		var names []string
		for _, name := range []string{"activationId", "annotations", "duration", "end", "logs", "name", "namespace", "namespaceId",
			"publish", "response", "start", "subject", "version"} {
			if _, ok := got[name]; ok {
				names = append(names, name)
			}
		}
		check.Equal(t, len(names), 13)
		check.Equal(t, len(got), 13)
		check.Equal(t, got["namespaceId"], "the-uuid", "the activation is %s", lines[1])
		check.DeepEqual(t, got["logs"], []any{}, "the activation is %s", lines[1])
		check.DeepEqual(t, got["response"], map[string]any{"statusCode": 0.0, "result": map[string]any{"shown": 1.0}, "size": 11.0}, "the activation is %s", lines[1])
		check.DeepEqual(t, env.records[0].Logs, env.logs.Lines, "the record")
		for _, secret := range []string{"secret", `"s"`, "k:s"} {
			check.Lacks(t, entry, secret, "is in the file")
		}
	})
}
