package activation

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestProvidesAPIKey(t *testing.T) {
	for value, want := range map[string]bool{
		"true": true, "1": true, "0.5": true, `"x"`: true, "[]": true, "{}": true, "-1": true,
		"false": false, "0": false, "0.0": false, "0e5": false, `""`: false, "null": false,
	} {
		a := Annotations{{"provide-api-key", json.RawMessage(value)}}
		check.Equal(t, a.ProvidesAPIKey(), want, "%s", value)
	}
	check.That(t, (Annotations{}).ProvidesAPIKey(), "missing means yes")
	twice := Annotations{{"provide-api-key", json.RawMessage("false")}, {"provide-api-key", json.RawMessage("true")}}
	check.That(t, twice.ProvidesAPIKey(), "the last of two counts")
}

func TestGPUAnnotation(t *testing.T) {
	for value, want := range map[string]GPURequest{
		"true":               {Weight: 1},
		"{}":                 {Weight: 1},
		`{"shim":"managed"}`: {Weight: 1, Shim: ShimManaged},
		`{"shim":"vmm"}`:     {Weight: 1, Shim: ShimVMM},
		`{"memory":"4 GB","weight":2.5,"shim":"off","concurrency":3}`: {Memory: 4 * GB, Weight: 2.5, Shim: ShimOff, Concurrency: 3},
	} {
		got, err := (Annotations{{GPUAnnotation, json.RawMessage(value)}}).GPU()
		check.NoError(t, err, "%s: %+v", value, got)
		check.That(check.Must(t), got != nil, "%s: %+v, %v", value, got, err)
		check.Equal(t, *got, want, "%s", value)
	}
	for _, none := range []Annotations{nil, {{GPUAnnotation, json.RawMessage("false")}}} {
		got, err := none.GPU()
		check.That(t, got == nil, "%v: %v, %v", none, got, err)
		check.NoError(t, err, "%v", none)
	}
}

func TestMalformedGPUAnnotation(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{`1`, "annotation gpu: given 1, allowed is true, false, or an object with the keys memory, weight, shim, limit, concurrency"},
		{`null`, "annotation gpu: given null, allowed is"},
		{`"yes"`, `annotation gpu: given "yes", allowed is`},
		{`{"memory":4}`, `annotation gpu: key memory: given 4, allowed is a size above zero such as "4 GB"`},
		{`{"memory":"0 B"}`, `annotation gpu: key memory: given "0 B", allowed`},
		{`{"limit":"none"}`, `annotation gpu: key limit: given "none", allowed is a size above zero`},
		{`{"weight":0}`, "annotation gpu: key weight: given 0, allowed is a number above 0, at most 1000"},
		{`{"weight":"2"}`, `annotation gpu: key weight: given "2", allowed`},
		{`{"weight":1e400}`, "annotation gpu: key weight: given 1e400, allowed"},
		{`{"shim":"maybe"}`, `annotation gpu: key shim: given "maybe", allowed is managed, vmm, count, off`},
		{`{"concurrency":1.5}`, "annotation gpu: key concurrency: given 1.5, allowed is a whole number from 1 to 500"},
		{`{"concurrency":0}`, "annotation gpu: key concurrency: given 0, allowed"},
		{`{"cores":1}`, `annotation gpu: key "cores": given 1, allowed is only the keys memory, weight, shim, limit, concurrency`},
		{`{"shim":"` + strings.Repeat("x", 500) + `"}`, "xxx..., allowed is managed"},
	} {
		_, err := (Annotations{{GPUAnnotation, json.RawMessage(c.value)}}).GPU()
		var bad *GPUError
		check.That(check.Must(t), errors.As(err, &bad), "%s: %v", c.value, err)
		check.ErrorContains(t, err, c.want, "%s", c.value)
	}
}

func TestGPURun(t *testing.T) {
	a := GPURun{Device: "0 (simulated)", Start: "host-warm", QueueTime: 1, PrefetchTime: 2, GPUTime: 3, Memory: 4, Measured: true}.Annotation()
	want := `{"device":"0 (simulated)","gpuTime":3,"memory":4,"memoryMeasured":true,"prefetchTime":2,"queueTime":1,"start":"host-warm"}`
	check.Equal(t, a.Key, "gpu")
	check.Equal(t, string(a.Value), want)
	back, ok := (Annotations{a}).GPURun()
	check.That(check.Must(t), ok, "read back as %+v, %t", back, ok)
	check.Equal(t, back.Annotation().Key, "gpu")
	check.Equal(t, string(back.Annotation().Value), want)
}

func TestStartOfARun(t *testing.T) {
	set := func(key, value string) Annotation { return Annotation{key, json.RawMessage(value)} }
	for _, c := range []struct {
		of   Annotations
		want string
	}{
		{nil, "warm"},
		{Annotations{set("initTime", "3")}, "cold"},
		{Annotations{set("initTime", "3"), set("gpu", `{"start":"host-warm"}`)}, "host-warm"},
		{Annotations{set("gpu", "true")}, "warm"},
		{Annotations{set("gpu", `{"device":0,"start":"busy-cold"}`)}, "busy-cold"},
	} {
		check.Equal(t, c.of.Start(), c.want, "%+v", c.of)
	}
}

func TestUserDefinedStatusCode(t *testing.T) {
	for result, want := range map[string]int{
		`{"statusCode":201}`: 201, `{"statusCode":201.9}`: 201, `{"statusCode":"404"}`: 404, `{"statusCode":"x"}`: 400,
		`{"statusCode":"-1"}`: 400, `{"statusCode":null}`: 400, `{"statusCode":1e99}`: 400, `{"error":{"statusCode":404}}`: 404,
		`{"error":{"statusCode":404},"statusCode":200}`: 404, `{"error":"x","statusCode":200}`: 200,
		`{"error":"statusCode"}`: 0, `{}`: 0, `[{"statusCode":1}]`: 0, `"statusCode"`: 0,
	} {
		got := userStatus(json.RawMessage(result))
		if want == 0 {
			check.That(t, got == nil, "%s: a status was found", result)
			continue
		}
		check.That(check.Must(t), got != nil, "%s: want %d", result, want)
		check.Equal(t, *got, want, "%s", result)
	}
}

func TestEventNeedsRunDetails(t *testing.T) {
	r := &Record{Response: Response{StatusCode: 3}}
	_, ok := NewEvent(r, "invoker0", "u", 1)
	check.That(t, !ok, "made an event of a record that was read")
	r.Details = RunDetails{Path: "guest/a", Kind: "unknown"}
	e, ok := NewEvent(r, "invoker0", "u", 1)
	check.That(check.Must(t), ok, "%+v", e)
	check.Equal(t, e.Body.MemoryMB, 0)
	check.Equal(t, e.Body.WaitTime, 0)
	check.That(t, e.Body.Size == nil, "%+v", e)
}
