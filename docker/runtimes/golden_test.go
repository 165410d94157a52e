package runtimes_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// recorded is an activation of a running OpenWhisk, with its code.
type recorded struct {
	Scenario, Message, Init string
	Response                struct {
		StatusCode int
		Result     json.RawMessage
		Size       *int
	}
}

// unlike lists the scenarios whose response must differ from OpenWhisk's, with the
// reason.
var unlike = map[string]string{
	"init-failure-syntax":    "the stack trace names files of the stock image",
	"blocking-202-after-60s": "takes a minute",
	"timeout":                "is the invoker's matter",
	"init-timeout":           "is the invoker's matter",
	"oom":                    "needs a container's memory limit",
	"no-api-key":             "lists variables that a container engine sets",
	"result-status-502":      "its image is a test server",
	"result-1MB-fits":        "its record was written down in part",
	"deleted-while-running":  "takes two seconds",
}

func recordings(t *testing.T) []recorded {
	t.Helper()
	f, err := os.Open("../../invoker/proxy/testdata/golden.jsonl")
	check.NoError(t, err)
	defer f.Close()
	var all []recorded
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recorded
		check.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		if r.Init != "" && r.Response.Result != nil && unlike[r.Scenario] == "" {
			all = append(all, r)
		}
	}
	return all
}

func (r recorded) family() runtimes.Family {
	switch r.Scenario {
	case "python":
		return runtimes.Python
	case "blackbox-code":
		return runtimes.Native
	}
	return runtimes.NodeJS
}

// TestRecordedActivations sends the recorded requests of a running OpenWhisk to the
// proxies, and compares the outcomes of the activations.
func TestRecordedActivations(t *testing.T) {
	seen := 0
	for _, r := range recordings(t) {
		seen++
		t.Run(r.Scenario, func(t *testing.T) {
			p := start(t, r.family())
			got := r.replay(t, p)
			want, err := activation.Canonical(r.Response.Result)
			check.NoError(t, err)
			check.Equal(t, got.StatusCode, r.Response.StatusCode, "status %d %s\nwant %d %s", got.StatusCode, got.Result, r.Response.StatusCode, want)
			check.Equal(t, string(got.Result), string(want), "status %d %s\nwant %d %s", got.StatusCode, got.Result, r.Response.StatusCode, want)
			size := r.Response.Size
			check.That(t, (got.Size == nil) == (size == nil), "size %v, want %v", got.Size, size)
			if size != nil && *got.Size != *size {
				t.Errorf("size %v, want %v", got.Size, size)
			}
		})
	}
	check.AtLeast(t, seen, 15)
}

func (r recorded) replay(t *testing.T, p *running) activation.Response {
	t.Helper()
	c := proxy.New(p.addr, 1)
	defer c.Close()
	limit := proxy.Limit{Max: 1 << 20, Truncation: 1 << 20}
	x := c.Init(t.Context(), []byte(r.Init), time.Minute, limit)
	if response, ok := proxy.InitOutcome(x, time.Minute, false); !ok {
		return response
	}
	m, err := activation.DecodeMessage([]byte(r.Message))
	check.NoError(t, err)
	v, err := proxy.NewInvocation(m, m.Content, false)
	check.NoError(t, err)
	x = c.Run(t.Context(), v.RunBody(time.Now().Add(time.Minute)), time.Minute, limit)
	return proxy.RunOutcome(x, time.Minute, false)
}
