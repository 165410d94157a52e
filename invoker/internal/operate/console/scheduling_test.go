package console_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestSchedulerModeInABrowser: the page shows the mode, the creations that schedulers
// order, and the activations that they hand out.
func TestSchedulerModeInABrowser(t *testing.T) {
	ctx, complaints := browser(t, 1280, 900)
	var scheduled atomic.Bool
	s := serve(t, func() any {
		status := map[string]any{"instance": "invoker0/test", "healthy": true, "uptime": "3s"}
		if scheduled.Load() {
			status["scheduling"] = json.RawMessage(`{"pulled":9,"fetching":2,"slots":{"pulled":3,"waitingCreations":4},"creations":{"opened":8,"WhiskError":1,"stale":2}}`)
		}
		return map[string]any{"at": 1, "version": "test", "status": status}
	})
	do(ctx, t, chromedp.Navigate(s.URL), until(`document.getElementById("facts").textContent.includes("classic mode")`),
		until(`document.getElementById("n-pulled") === null`))
	scheduled.Store(true)
	do(ctx, t, until(`document.getElementById("facts").textContent.includes("scheduler mode")`))
	for id, want := range map[string]string{"n-pulled": "9", "n-pulled-in-flight": "3", "n-creations-waiting": "4", "n-creations-refused": "3"} {
		var got string
		if do(ctx, t, chromedp.Text("#"+id, &got)); got != want {
			t.Errorf("%s is %q, want %s", id, got, want)
		}
	}
	if complained := complaints(); len(complained) > 0 {
		t.Errorf("the page complained: %q", complained)
	}
}
