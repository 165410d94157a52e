package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// capture is one activation of a running OpenWhisk: its message, the requests of the
// stock invoker to the container, the answers and the record.
type capture struct {
	Scenario   string          `json:"scenario"`
	Message    string          `json:"message"`
	Action     json.RawMessage `json:"action"`
	Init       string          `json:"init"`
	Run        string          `json:"run"`
	InitAnswer *answer         `json:"initAnswer"`
	RunAnswer  *answer         `json:"runAnswer"`
	Response   json.RawMessage `json:"response"`
}

type answer struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
}

func captures(t *testing.T) []capture {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.jsonl")
	check.NoError(t, err)
	var all []capture
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c capture
		check.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		all = append(all, c)
	}
	check.NoError(t, lines.Err())
	check.That(check.Must(t), len(all) != 0, "no captures")
	return all
}

func manifest(t *testing.T) *activation.Manifest {
	t.Helper()
	m, err := activation.ParseManifest([]byte(`{"runtimes":{
		"nodejs":[{"kind":"nodejs:20","default":true,"image":{"name":"action-nodejs-v20"},
			"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}],
		"python":[{"kind":"python:3.11","default":true,"image":{"name":"action-python-v3.11"},
			"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}]}}`),
		activation.ManifestOptions{})
	check.NoError(t, err)
	return m
}

// action returns the action as stored in the database, or else as sent in /init.
func (c capture) action(t *testing.T) *activation.Action {
	t.Helper()
	if c.Action != nil {
		a, err := activation.DecodeAction(c.Action, manifest(t))
		check.NoError(t, err, "%s", c.Scenario)
		return a
	}
	var body struct {
		Value struct {
			Name, Main string
			Binary     bool
			Code       *string
		}
	}
	check.NoError(t, json.Unmarshal([]byte(c.Init), &body))
	a := &activation.Action{Name: body.Value.Name}
	a.Exec.Main, a.Exec.Binary = body.Value.Main, body.Value.Binary
	if body.Value.Code != nil {
		a.Exec.Code, a.Exec.HasCode = *body.Value.Code, true
	}
	return a
}

func tree(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	check.NoError(t, err, "in %s", text)
	return v
}

func millis(t *testing.T, text any) time.Time {
	t.Helper()
	n, err := strconv.ParseInt(text.(string), 10, 64)
	check.NoError(t, err)
	return time.UnixMilli(n)
}

func TestBodiesAreThoseOfTheOriginal(t *testing.T) {
	for _, c := range captures(t) {
		m, err := activation.DecodeMessage([]byte(c.Message))
		check.NoError(t, err, "%s", c.Scenario)
		if c.Init != "" {
			want := tree(t, []byte(c.Init))
			env := want.(map[string]any)["value"].(map[string]any)["env"].(map[string]any)
			_, key := env["__OW_API_KEY"]
			v, err := NewInvocation(m, m.Content, key)
			check.NoError(t, err)
			got := tree(t, v.InitBody(c.action(t), millis(t, env["__OW_DEADLINE"])))
			check.DeepEqual(t, got, want, "%s: init body", c.Scenario)
		}
		if c.Run != "" {
			want := tree(t, []byte(c.Run))
			_, key := want.(map[string]any)["api_key"]
			v, err := NewInvocation(m, m.Content, key)
			check.NoError(t, err)
			text := v.RunBody(millis(t, want.(map[string]any)["deadline"]))
			check.DeepEqual(t, tree(t, text), want, "%s: run body", c.Scenario)
			// Up to the parameters, whose order OpenWhisk shuffles, the order of keys
			// and the white space equal OpenWhisk's.
			got, _, _ := strings.Cut(string(text), `"value":`)
			if want, _, _ := strings.Cut(c.Run, `"value":`); got != want {
				t.Errorf("%s: run body\n got %s\nwant %s", c.Scenario, got, want)
			}
		}
	}
}

// answered returns an exchange with this immediate answer.
func answered(a answer) Exchange {
	now := time.Now()
	return Exchange{Start: now, End: now.Add(time.Millisecond), Status: a.Status,
		Body: []byte(a.Body), ContentLength: int64(len(a.Body))}
}

func TestOutcomesAreThoseOfTheOriginal(t *testing.T) {
	seen := 0
	for _, c := range captures(t) {
		var got activation.Response
		switch {
		case c.Response == nil:
			continue
		case c.RunAnswer != nil:
			got = RunOutcome(answered(*c.RunAnswer), time.Minute, false)
		case c.InitAnswer != nil && c.InitAnswer.Status != 200:
			r, ok := InitOutcome(answered(*c.InitAnswer), time.Minute, false)
			check.That(t, !ok, "%s: init went well", c.Scenario)
			got = r
		default:
			continue
		}
		seen++
		var want struct {
			StatusCode int
			Result     json.RawMessage
			Size       *int
		}
		check.NoError(t, json.Unmarshal(c.Response, &want))
		result, err := activation.Canonical(want.Result)
		check.NoError(t, err)
		check.Equal(t, got.StatusCode, want.StatusCode, "%s", c.Scenario)
		check.EqualSlices(t, got.Result, result, "%s", c.Scenario)
		check.That(check.Must(t), got.Size != nil, "%s", c.Scenario)
		check.Equal(t, *got.Size, *want.Size, "%s", c.Scenario)
	}
	check.AtLeast(t, seen, 20, "compared only")
}
