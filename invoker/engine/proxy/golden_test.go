package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// capture is one activation of a running OpenWhisk: its message, what the
// stock invoker sent to the container, what came back and what was recorded.
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
	if err != nil {
		t.Fatal(err)
	}
	var all []capture
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c capture
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// action is the action as the database had it, or else as /init has it.
func (c capture) action(t *testing.T) *activation.Action {
	t.Helper()
	if c.Action != nil {
		a, err := activation.DecodeAction(c.Action, manifest(t))
		if err != nil {
			t.Fatalf("%s: %v", c.Scenario, err)
		}
		return a
	}
	var body struct {
		Value struct {
			Name, Main string
			Binary     bool
			Code       *string
		}
	}
	if err := json.Unmarshal([]byte(c.Init), &body); err != nil {
		t.Fatal(err)
	}
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
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func millis(t *testing.T, text any) time.Time {
	t.Helper()
	n, err := strconv.ParseInt(text.(string), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(n)
}

func TestBodiesAreThoseOfTheOriginal(t *testing.T) {
	for _, c := range captures(t) {
		m, err := activation.DecodeMessage([]byte(c.Message))
		if err != nil {
			t.Fatalf("%s: %v", c.Scenario, err)
		}
		if c.Init != "" {
			want := tree(t, []byte(c.Init))
			env := want.(map[string]any)["value"].(map[string]any)["env"].(map[string]any)
			_, key := env["__OW_API_KEY"]
			v, err := NewInvocation(m, m.Content, key)
			if err != nil {
				t.Fatal(err)
			}
			got := tree(t, v.InitBody(c.action(t), millis(t, env["__OW_DEADLINE"])))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: init body\n got %v\nwant %v", c.Scenario, got, want)
			}
		}
		if c.Run != "" {
			want := tree(t, []byte(c.Run))
			_, key := want.(map[string]any)["api_key"]
			v, err := NewInvocation(m, m.Content, key)
			if err != nil {
				t.Fatal(err)
			}
			text := v.RunBody(millis(t, want.(map[string]any)["deadline"]))
			if got := tree(t, text); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: run body\n got %v\nwant %v", c.Scenario, got, want)
			}
			// Up to the parameters, whose order the original shuffles, key
			// order and white space are the original's too.
			got, _, _ := strings.Cut(string(text), `"value":`)
			if want, _, _ := strings.Cut(c.Run, `"value":`); got != want {
				t.Errorf("%s: run body\n got %s\nwant %s", c.Scenario, got, want)
			}
		}
	}
}

// answered is the exchange in which a container gave this answer at once.
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
			if ok {
				t.Errorf("%s: init went well", c.Scenario)
			}
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
		if err := json.Unmarshal(c.Response, &want); err != nil {
			t.Fatal(err)
		}
		result, err := activation.Canonical(want.Result)
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode != want.StatusCode || !bytes.Equal(got.Result, result) ||
			!reflect.DeepEqual(got.Size, want.Size) {
			t.Errorf("%s:\n got %d %s %v\nwant %d %s %v", c.Scenario, got.StatusCode, got.Result,
				got.Size, want.StatusCode, result, *want.Size)
		}
	}
	if seen < 20 {
		t.Errorf("compared only %d captures", seen)
	}
}
