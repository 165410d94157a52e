package proxy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// lasted returns an exchange of a given duration.
func lasted(d time.Duration, x Exchange) Exchange {
	x.Start = time.Now()
	x.End = x.Start.Add(d)
	return x
}

func lines(status int, body string) Exchange {
	return Exchange{Status: status, Body: []byte(body), ContentLength: int64(len(body))}
}

func broke(f Failure) Exchange { return Exchange{Failure: f, Err: errors.New("cause")} }

func cut(status int, body string, length int64) Exchange {
	return Exchange{Status: status, Body: []byte(body), ContentLength: length, Truncated: true, Max: 10}
}

const noSize = -1

type outcomeCase struct {
	name   string
	x      Exchange
	oom    bool
	status int
	result string
	size   int
}

func (c outcomeCase) check(t *testing.T, got activation.Response) {
	t.Helper()
	size := noSize
	if got.Size != nil {
		size = *got.Size
	}
	check.Equal(t, got.StatusCode, c.status, "%s", c.name)
	check.Equal(t, string(got.Result), c.result, "%s", c.name)
	check.Equal(t, size, c.size, "%s", c.name)
}

// TestInitOutcome has one row for each line of the contract's table of outcomes, in its
// order.
func TestInitOutcome(t *testing.T) {
	const limit = time.Second
	fast, slow := time.Millisecond, limit
	timeout := `{"error":"The action exceeded its time limits of 1000 milliseconds during initialization."}`
	tooLong := `{"error":"The action produced a response that exceeded the allowed length: 99 > 10 bytes. The truncated response was: abc"}`
	for _, c := range []outcomeCase{
		{name: "timed out", x: lasted(slow, broke(Timeout)), status: 2, result: timeout, size: noSize},
		{name: "late failure", x: lasted(slow, lines(502, `{"error":"x"}`)), status: 2, result: timeout, size: noSize},
		{name: "late break", x: lasted(slow, broke(NoResponse)), oom: true, status: 2, result: timeout, size: noSize},
		{name: "late and truncated", x: lasted(slow, cut(200, "abc", 99)), status: 2, result: timeout, size: noSize},
		{name: "truncated", x: lasted(fast, cut(200, "abc", 99)), status: 2, result: tooLong, size: 99},
		{name: "error object", x: lasted(fast, lines(502, `{"error": {"a": [1.0, 1e3]}, "b": 1}`)), status: 2,
			result: `{"error":{"a":[1.0,1E+3]}}`, size: 36},
		{name: "other object", x: lasted(fast, lines(500, `{"a":1}`)), status: 2,
			result: `{"error":"The action failed during initialization: {\"a\":1}"}`, size: 7},
		{name: "text", x: lasted(fast, lines(404, `nø`)), status: 2,
			result: `{"error":"The action failed during initialization: nø"}`, size: 2},
		{name: "empty", x: lasted(fast, lines(500, ``)), status: 2,
			result: `{"error":"The action failed during initialization."}`, size: 0},
		{name: "out of memory", x: lasted(fast, broke(NoResponse)), oom: true, status: 2,
			result: `{"error":"The action exhausted its memory and was aborted."}`, size: noSize},
		{name: "no response", x: lasted(fast, broke(NoResponse)), status: 2,
			result: `{"error":"The action did not initialize and exited unexpectedly."}`, size: noSize},
		{name: "cancelled", x: lasted(fast, broke(Cancelled)), status: 3,
			result: `{"error":"The action did not produce a valid response and exited unexpectedly."}`, size: noSize},
	} {
		got, ok := InitOutcome(c.x, limit, c.oom)
		check.That(t, !ok, "%s: counts as success", c.name)
		c.check(t, got)
	}
	for _, elapsed := range []time.Duration{fast, slow} {
		_, ok := InitOutcome(lasted(elapsed, lines(200, "anything")), limit, false)
		check.That(t, ok, "a 200 after %v is no success", elapsed)
	}
}

func TestRunOutcome(t *testing.T) {
	const limit = time.Second
	fast, slow := time.Millisecond, limit
	timeout := `{"error":"The action exceeded its time limits of 1000 milliseconds."}`
	tooLong := `{"error":"The action produced a response that exceeded the allowed length: 99 > 10 bytes. The truncated response was: abc"}`
	invalid := `{"error":"The action did not produce a valid JSON or JSON Array response`
	for _, c := range []outcomeCase{
		{name: "timed out", x: lasted(slow, broke(Timeout)), status: 2, result: timeout, size: noSize},
		{name: "answered too late", x: lasted(slow, lines(200, `{"a":1}`)), status: 2, result: timeout, size: noSize},
		{name: "broke too late", x: lasted(slow, broke(NoResponse)), oom: true, status: 2, result: timeout, size: noSize},
		{name: "truncated", x: lasted(fast, cut(200, "abc", 99)), status: 1, result: tooLong, size: 99},
		{name: "truncated error", x: lasted(fast, cut(500, "abc", 99)), status: 1, result: tooLong, size: 99},
		{name: "object", x: lasted(fast, lines(200, "{\"py\": \"sn\U0001F40Dke\"}\n")), status: 0,
			result: "{\"py\":\"sn\U0001F40Dke\"}", size: 17},
		{name: "numbers stay", x: lasted(fast, lines(200, `{"a":1.0,"b":12345678901234567890.123}`)), status: 0,
			result: `{"a":1.0,"b":12345678901234567890.123}`, size: 38},
		{name: "error", x: lasted(fast, lines(200, `{"error":"e","kept":1}`)), status: 1, result: `{"error":"e"}`, size: 22},
		{name: "null error", x: lasted(fast, lines(200, `{"error":null}`)), status: 1, result: `{"error":null}`, size: 14},
		{name: "array", x: lasted(fast, lines(200, `[1, "two"]`)), status: 0, result: `[1,"two"]`, size: 10},
		{name: "status with error", x: lasted(fast, lines(502, `{"error":"gw","x":1}`)), status: 2, result: `{"error":"gw"}`, size: 20},
		{name: "status without error", x: lasted(fast, lines(500, `{"boom":1}`)), status: 2,
			result: invalid + `: {\"boom\":1}"}`, size: 10},
		{name: "status 202", x: lasted(fast, lines(202, `{"a":1}`)), status: 2, result: invalid + `: {\"a\":1}"}`, size: 7},
		{name: "array with status", x: lasted(fast, lines(500, `[1]`)), status: 2, result: invalid + `: [1]"}`, size: 3},
		{name: "string", x: lasted(fast, lines(200, `"s"`)), status: 2, result: invalid + `: \"s\""}`, size: 3},
		{name: "number", x: lasted(fast, lines(200, `42`)), status: 2, result: invalid + `: 42"}`, size: 2},
		{name: "null", x: lasted(fast, lines(200, `null`)), status: 2, result: invalid + `: null"}`, size: 4},
		{name: "text", x: lasted(fast, lines(200, `not json`)), status: 2, result: invalid + `: not json"}`, size: 8},
		{name: "empty", x: lasted(fast, lines(200, ``)), status: 2, result: invalid + `."}`, size: 0},
		{name: "empty with status", x: lasted(fast, lines(500, ``)), status: 2, result: invalid + `."}`, size: 0},
		{name: "out of memory", x: lasted(fast, broke(NoResponse)), oom: true, status: 2,
			result: `{"error":"The action exhausted its memory and was aborted."}`, size: noSize},
		{name: "no response", x: lasted(fast, broke(NoResponse)), status: 2,
			result: `{"error":"The action did not produce a valid response and exited unexpectedly."}`, size: noSize},
		{name: "refused", x: lasted(fast, broke(Refused)), status: 2,
			result: `{"error":"The action did not produce a valid response and exited unexpectedly."}`, size: noSize},
		{name: "cancelled", x: lasted(fast, broke(Cancelled)), status: 3,
			result: `{"error":"The action did not produce a valid response and exited unexpectedly."}`, size: noSize},
	} {
		c.check(t, RunOutcome(c.x, limit, c.oom))
	}
}

func TestUnhealthyIsSeenBeforeAnOutcome(t *testing.T) {
	x := lines(503, "")
	check.That(check.Must(t), x.Unhealthy(), "503: unhealthy %t, broken %t, ok %t", x.Unhealthy(), x.Broken(), x.OK())
	check.That(t, !x.Broken(), "503: unhealthy %t, broken %t, ok %t", x.Unhealthy(), x.Broken(), x.OK())
	check.That(t, !x.OK(), "503: unhealthy %t, broken %t, ok %t", x.Unhealthy(), x.Broken(), x.OK())
	check.That(t, !lines(500, "").Unhealthy(), "500 is unhealthy")
	x = (Exchange{Failure: NoResponse})
	check.That(t, !x.Unhealthy(), "no response: unhealthy %t, broken %t, ok %t", x.Unhealthy(), x.Broken(), x.OK())
	check.That(check.Must(t), x.Broken(), "no response: unhealthy %t, broken %t, ok %t", x.Unhealthy(), x.Broken(), x.OK())
	check.That(t, !x.OK(), "no response: unhealthy %t, broken %t, ok %t", x.Unhealthy(), x.Broken(), x.OK())
}

// FuzzOutcome: for any answer of a container, the response has the properties of every
// response.
func FuzzOutcome(f *testing.F) {
	f.Add(200, []byte(`{"error":1}`), false)
	f.Add(500, []byte(`[`), true)
	f.Add(200, []byte(strings.Repeat("[", 2000)), false)
	f.Add(200, []byte("{\"a\":\"\xff\"}"), false)
	f.Fuzz(func(t *testing.T, status int, body []byte, truncated bool) {
		x := lasted(time.Millisecond, Exchange{Status: status, Body: decode(body, ""),
			ContentLength: int64(len(body)), Truncated: truncated})
		for _, r := range []activation.Response{RunOutcome(x, time.Second, false), first(InitOutcome(x, time.Second, true))} {
			check.AtLeast(check.Must(t), r.StatusCode, 0)
			check.AtMost(check.Must(t), r.StatusCode, 2)
			if r.Result != nil {
				_, err := activation.Canonical(r.Result)
				check.NoError(t, err, "result %q", r.Result)
			}
		}
	})
}

func first(r activation.Response, _ bool) activation.Response { return r }
