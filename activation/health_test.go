package activation

import (
	"strings"
	"testing"
)

const (
	oneHealth    = `{"busyMemory":256,"dedicatedNamespaces":[],"freeMemory":1536,"inProgressMemory":256,"status":"up","tags":["gpu"]}`
	oneLeader    = `{"host":"10.0.0.6","pekkoPort":17356,"rpcPort":13002}`
	oneScheduler = `{"endpoints":` + oneLeader + `,"queueSize":3,"sid":{"asString":"0"}}`
)

func TestHealth(t *testing.T) {
	h := Health{Status: Up, FreeMB: 1536, BusyMB: 256, InProgressMB: 256, Tags: []string{"gpu"}}
	if got := string(h.Encode()); got != oneHealth {
		t.Errorf("written as %s", got)
	}
	for _, path := range []string{"busyMemory", "dedicatedNamespaces", "freeMemory", "inProgressMemory", "status", "tags"} {
		if _, err := DecodeHealth(without(t, oneHealth, path)); err == nil {
			t.Errorf("a record without %s is read", path)
		}
	}
	for status, ok := range map[string]bool{"up": true, "unhealthy": true, "down": true, "Up": false, "offline": false, "": false} {
		_, err := DecodeHealth([]byte(strings.Replace(oneHealth, `"up"`, `"`+status+`"`, 1)))
		if (err == nil) != ok {
			t.Errorf("status %q: %v", status, err)
		}
	}
}

func TestSchedulerRecords(t *testing.T) {
	want := SchedulerEndpoints{Endpoint{"10.0.0.6", 13002}, 17356}
	e, err := DecodeSchedulerEndpoints([]byte(oneLeader))
	if err != nil || e != want {
		t.Errorf("got %+v, %v", e, err)
	}
	if got := string(want.Encode()); got != oneLeader {
		t.Errorf("written as %s", got)
	}
	s, err := DecodeSchedulerState([]byte(oneScheduler))
	if want := (SchedulerState{"0", want, 3}); err != nil || s != want {
		t.Errorf("got %+v, %v", s, err)
	}
	if got := string(s.Encode()); got != oneScheduler {
		t.Errorf("written as %s", got)
	}
	// Releases of Akka's time name the port of actors otherwise.
	if e, err := DecodeSchedulerEndpoints([]byte(`{"host":"h","akkaPort":1,"rpcPort":2}`)); err != nil || e.Endpoint != (Endpoint{"h", 2}) {
		t.Errorf("got %+v, %v", e, err)
	}
	for _, text := range []string{`{"host":"h"}`, `{"rpcPort":1}`, `{"host":"h","rpcPort":0}`, `{"host":"h","rpcPort":65536}`, `{"host":"","rpcPort":1}`} {
		if e, err := DecodeSchedulerEndpoints([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, e)
		}
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
