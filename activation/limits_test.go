package activation

import (
	"errors"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
			check.NoError(t, err, "%s", c.name)
			continue
		}
		var limit *LimitError
		check.That(check.Must(t), errors.As(err, &limit), "%s: %v", c.name, err)
		check.Equal(t, err.Error(), "requirement failed: "+c.want, "%s", c.name)
	}
}

// TestCapturedLimit is the text that a user of the original read.
func TestCapturedLimit(t *testing.T) {
	user := UserLimits{MaxMemoryMB: number(128)}
	err := DefaultBounds().For(UserLimits{}, user).Check(Limits{TimeoutMillis: 60000, MemoryMB: 256, LogsMB: 10, Concurrency: 1})
	want := "requirement failed: memory size 256 MB exceeds allowed threshold of 128 MB"
	check.That(check.Must(t), err != nil, "%v, want %s", err, want)
	check.Equal(t, err.Error(), want)
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
	check.Equal(t, got, want)
	check.Equal(t, system.For(UserLimits{}, UserLimits{}), system, "nothing set")
	check.Equal(t, system.For(UserLimits{MaxMemoryMB: number(1)}, UserLimits{}).MemoryMB.Max, 128, "default below the system's minimum")
}

func TestUserLimits(t *testing.T) {
	text := `{"allowedKinds":["a","b"],"concurrentInvocations":1,"maxActionMemory":512,"maxPayloadSize":"524288 B","storeActivations":false}`
	l, err := ParseUserLimits([]byte(text))
	check.NoError(t, err)
	check.Equal(t, *l.MaxMemoryMB, 512)
	check.Equal(t, *l.MaxPayload, 512*KB)
	check.That(t, !l.StoresActivations(), "%+v", l)
	check.Equal(t, len(l.AllowedKinds), 2)
	check.Equal(t, *l.ConcurrentInvoked, 1)
	check.Equal(t, string(l.append(nil)), text, "as read")
	l.raw = nil
	check.Equal(t, string(l.append(nil)), text, "as made")
	check.That(t, (UserLimits{}).StoresActivations(), "without limits no activations are stored")
	check.Equal(t, string((UserLimits{}).append(nil)), "{}", "no limits")
	_, err = ParseUserLimits([]byte(`{"maxActionMemory":null,"new":{}}`))
	check.NoError(t, err, "null and unknown")
}
