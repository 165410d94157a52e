package peertest

import (
	"testing"
	"time"
)

// WaitLimit is the time that a test waits for an event that should happen soon. It is
// long because the machine may be busy, or may stand still for a minute.
const WaitLimit = 3 * time.Minute

// Until calls whyNot until it returns "". It fails the test with the last answer if
// that takes longer than WaitLimit.
func Until(t testing.TB, what string, whyNot func() string) {
	t.Helper()
	UntilWithin(t, WaitLimit, what, whyNot)
}

// UntilWithin is Until with another limit.
func UntilWithin(t testing.TB, limit time.Duration, what string, whyNot func() string) {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		reason := whyNot()
		if reason == "" {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("%s: %s", what, reason)
		}
	}
}
