package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/gpuwhisk/gpuwhisk/invoker/console"
)

// serve has a console of made-up snapshots.
func serve(t *testing.T, snapshot func() any) *httptest.Server {
	closing := make(chan struct{})
	s := httptest.NewServer(console.New(console.Options{
		Snapshot: func(context.Context) (any, error) { return snapshot(), nil }, Closing: closing,
	}))
	t.Cleanup(func() { close(closing); s.Close() })
	return s
}

// TestMergeInABrowser: the page makes of changes what the server has.
func TestMergeInABrowser(t *testing.T) {
	ctx, complaints := browser(t, 1280, 900)
	s := serve(t, func() any { return console.Large(5, 1, 0) })
	do(t, ctx, chromedp.Navigate(s.URL), until(`document.querySelectorAll("#functions tbody tr").length === 5`),
		chromedp.Evaluate(`import("./merge.js").then((m) => { window.tried = m.merge; })`, nil), until(`!!window.tried`))
	all, deltas, err := console.Shaken(1, 40)
	if err != nil {
		t.Fatal(err)
	}
	for turn := range all {
		whole, _ := json.Marshal(all[turn])
		step := fmt.Sprintf(`window.state = %s; JSON.stringify(window.state)`, whole)
		if turn > 0 && deltas[turn] != nil {
			step = fmt.Sprintf(`window.tried(window.state, %s); JSON.stringify(window.state)`, deltas[turn])
		}
		var text string
		do(t, ctx, chromedp.Evaluate(step, &text))
		var got, want any
		if json.Unmarshal([]byte(text), &got) != nil || json.Unmarshal(whole, &want) != nil {
			t.Fatalf("turn %d: %s", turn, text)
		}
		if !reflect.DeepEqual(console.Sorted(got), console.Sorted(want)) {
			t.Fatalf("turn %d: after %s the page has\n%s\nwant\n%s", turn, deltas[turn], text, whole)
		}
	}
	if said := complaints(); len(said) > 0 {
		t.Errorf("the page complained: %q", said)
	}
}

// TestThousandInABrowser opens the page with a thousand flows on sixteen devices,
// all of which move. How long an update takes is for the log: it is of the
// machine that the test runs on.
func TestThousandInABrowser(t *testing.T) {
	ctx, complaints := browser(t, 1280, 900)
	var turn atomic.Int32
	s := serve(t, func() any { return console.Large(1000, 16, int(turn.Add(1))) })
	watch := `(() => { window.long = []; window.updates = 0;
		new PerformanceObserver((l) => { for (const e of l.getEntries()) window.long.push(e.duration); }).observe({type: "longtask"});
		new MutationObserver(() => window.updates++).observe(document.getElementById("clock"), {childList: true}); })()`
	do(t, ctx, chromedp.Navigate(s.URL), until(`document.querySelectorAll("#devices .device").length === 16`),
		chromedp.Evaluate(watch, nil), until(`window.updates >= 5`))
	var count string
	var long []float64
	do(t, ctx, chromedp.Text("#functions-count", &count), chromedp.Evaluate(`window.long`, &long))
	if count != "1000" {
		t.Errorf("the page counts %q functions", count)
	}
	t.Logf("tasks of more than 50 ms in five updates: %v ms", long)
	shoot(t, ctx, "thousand")
	do(t, ctx, chromedp.Click("#all"), until(`document.querySelectorAll("#functions tbody tr").length === 1000`),
		chromedp.Evaluate(`window.updates = 0`, nil), until(`window.updates >= 1`))
	if said := complaints(); len(said) > 0 {
		t.Errorf("the page complained: %q", said)
	}
}
