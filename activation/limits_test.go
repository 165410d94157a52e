package activation

import (
	"errors"
	"testing"
)

func number[T any](v T) *T { return &v }

func TestBoundsCheck(t *testing.T) {
	b := DefaultBounds()
	good := Limits{TimeoutMillis: 60000, MemoryMB: 256, LogsMB: 10, Concurrency: 1}
	for _, c := range []struct {
		name   string
		change func(*Limits)
		want   string
	}{
		{"good", func(*Limits) {}, ""},
		{"bounds count as allowed", func(l *Limits) { l.TimeoutMillis, l.MemoryMB, l.LogsMB = 100, 512, 0 }, ""},
		{"long", func(l *Limits) { l.TimeoutMillis = 300001 }, "duration 300001 milliseconds exceeds allowed threshold of 300000 milliseconds"},
		{"short", func(l *Limits) { l.TimeoutMillis = 99 }, "duration 99 milliseconds below allowed threshold of 100 milliseconds"},
		{"large", func(l *Limits) { l.MemoryMB = 513 }, "memory size 513 MB exceeds allowed threshold of 512 MB"},
		{"small", func(l *Limits) { l.MemoryMB = 127 }, "memory size 127 MB below allowed threshold of 128 MB"},
		{"parallel", func(l *Limits) { l.Concurrency = 2 }, "concurrency 2 exceeds allowed threshold of 1"},
		{"none", func(l *Limits) { l.Concurrency = 0 }, "concurrency 0 below allowed threshold of 1"},
		{"talkative", func(l *Limits) { l.LogsMB = 11 }, "log size 11 MB exceeds allowed threshold of 10 MB"},
		{"negative", func(l *Limits) { l.LogsMB = -1 }, "log size -1 MB below allowed threshold of 0 MB"},
		{"first counts", func(l *Limits) { l.TimeoutMillis, l.MemoryMB, l.LogsMB = 1, 1, 99 }, "duration 1 milliseconds below allowed threshold of 100 milliseconds"},
	} {
		l := good
		c.change(&l)
		err := b.Check(l)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var limit *LimitError
		if !errors.As(err, &limit) || err.Error() != "requirement failed: "+c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestCapturedLimit is the text that a user of the original read.
func TestCapturedLimit(t *testing.T) {
	user := UserLimits{MaxMemoryMB: number(128)}
	err := DefaultBounds().For(UserLimits{}, user).Check(Limits{TimeoutMillis: 60000, MemoryMB: 256, LogsMB: 10, Concurrency: 1})
	want := "requirement failed: memory size 256 MB exceeds allowed threshold of 128 MB"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestBoundsFor(t *testing.T) {
	system := DefaultBounds()
	defaults := UserLimits{MaxMemoryMB: number(300), MaxTimeoutMillis: number(200_000), Truncation: number(10 * KB)}
	user := UserLimits{MaxMemoryMB: number(400), MinTimeoutMillis: number(5), MaxTimeoutMillis: number(900_000), MaxPayload: number(2 * MB)}
	got := system.For(defaults, user)
	want := system
	want.MemoryMB.Max = 400      // the namespace's own
	want.Truncation = 10 * KB    // the default for namespaces
	want.Payload = MB            // never more than the system's
	want.TimeoutMillis.Min = 100 // never outside the system's
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got := system.For(UserLimits{}, UserLimits{}); got != system {
		t.Errorf("nothing set: %+v", got)
	}
	if got := system.For(UserLimits{MaxMemoryMB: number(1)}, UserLimits{}).MemoryMB.Max; got != 128 {
		t.Errorf("default below the system's minimum: %d", got)
	}
}

func TestUserLimits(t *testing.T) {
	text := `{"allowedKinds":["a","b"],"concurrentInvocations":1,"maxActionMemory":512,"maxPayloadSize":"524288 B","storeActivations":false}`
	l, err := ParseUserLimits([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if *l.MaxMemoryMB != 512 || *l.MaxPayload != 512*KB || l.StoresActivations() || len(l.AllowedKinds) != 2 || *l.ConcurrentInvoked != 1 {
		t.Errorf("%+v", l)
	}
	if got := string(l.append(nil)); got != text {
		t.Errorf("as read: %s", got)
	}
	l.raw = nil
	if got := string(l.append(nil)); got != text {
		t.Errorf("as made: %s", got)
	}
	if !(UserLimits{}).StoresActivations() {
		t.Error("without limits no activations are stored")
	}
	if got := string((UserLimits{}).append(nil)); got != "{}" {
		t.Errorf("no limits are %s", got)
	}
	if _, err := ParseUserLimits([]byte(`{"maxActionMemory":null,"new":{}}`)); err != nil {
		t.Errorf("null and unknown: %v", err)
	}
}
