package peertest

import (
	"testing"
	"time"
)

// WaitLimit is how long a test waits for what should happen soon, on a machine
// that has much else to do, or that stands still for a minute.
const WaitLimit = 3 * time.Minute

// Until asks why not until the answer is empty, and fails the test with the last
// answer where that does not come within WaitLimit.
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
