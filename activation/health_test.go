package activation

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const (
	oneHealth    = `{"busyMemory":256,"dedicatedNamespaces":[],"freeMemory":1536,"inProgressMemory":256,"status":"up","tags":["gpu"]}`
	oneLeader    = `{"host":"10.0.0.6","pekkoPort":17356,"rpcPort":13002}`
	oneScheduler = `{"endpoints":` + oneLeader + `,"queueSize":3,"sid":{"asString":"0"}}`
)

func TestHealth(t *testing.T) {
	h := Health{Status: Up, FreeMB: 1536, BusyMB: 256, InProgressMB: 256, Tags: []string{"gpu"}}
	check.Equal(t, string(h.Encode()), oneHealth)
	for _, path := range []string{"busyMemory", "dedicatedNamespaces", "freeMemory", "inProgressMemory", "status", "tags"} {
		_, err := DecodeHealth(without(t, oneHealth, path))
		check.That(t, err != nil, "a record without %s is read", path)
	}
	for status, ok := range map[string]bool{"up": true, "unhealthy": true, "down": true, "Up": false, "offline": false, "": false} {
		_, err := DecodeHealth([]byte(strings.Replace(oneHealth, `"up"`, `"`+status+`"`, 1)))
		check.That(t, (err == nil) == ok, "status %q: %v", status, err)
	}
}

func TestSchedulerRecords(t *testing.T) {
	want := SchedulerEndpoints{Endpoint{"10.0.0.6", 13002}, 17356}
	e, err := DecodeSchedulerEndpoints([]byte(oneLeader))
	check.NoError(t, err)
	check.Equal(t, e, want)
	check.Equal(t, string(want.Encode()), oneLeader)
	s, err := DecodeSchedulerState([]byte(oneScheduler))
	check.NoError(t, err)
	check.Equal(t, s, (SchedulerState{"0", want, 3}))
	check.Equal(t, string(s.Encode()), oneScheduler)
	// Releases of Akka's time name the port of actors otherwise.
	e, err = DecodeSchedulerEndpoints([]byte(`{"host":"h","akkaPort":1,"rpcPort":2}`))
	check.NoError(t, err)
	check.Equal(t, e.Endpoint, Endpoint{"h", 2})
	for _, text := range []string{`{"host":"h"}`, `{"rpcPort":1}`, `{"host":"h","rpcPort":0}`, `{"host":"h","rpcPort":65536}`, `{"host":"","rpcPort":1}`} {
		e, err := DecodeSchedulerEndpoints([]byte(text))
		check.That(t, err != nil, "%s is read as %+v", text, e)
	}
}

func FuzzDecodeHealth(f *testing.F) {
	f.Add([]byte(oneHealth))
	fuzzCodec(f, DecodeHealth, Health.Encode, func(Health) {})
}

func FuzzDecodeSchedulerEndpoints(f *testing.F) {
	f.Add([]byte(oneLeader))
	fuzzCodec(f, DecodeSchedulerEndpoints, SchedulerEndpoints.Encode, func(SchedulerEndpoints) {})
}

func FuzzDecodeSchedulerState(f *testing.F) {
	f.Add([]byte(oneScheduler))
	fuzzCodec(f, DecodeSchedulerState, SchedulerState.Encode, func(SchedulerState) {})
}
