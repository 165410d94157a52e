package console_test

import (
	"context"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/console"
)

// serve serves the console with made-up snapshots.
func serve(t *testing.T, snapshot func() any) *httptest.Server {
	return serveExplained(t, snapshot, nil)
}

// serveExplained serves the console with made-up snapshots and explanations.
func serveExplained(t *testing.T, snapshot func() any, explain func(id string) (any, bool)) *httptest.Server {
	closing := make(chan struct{})
	s := httptest.NewServer(console.New(console.Options{
		Snapshot: func(context.Context) (any, error) { return snapshot(), nil }, Explain: explain, Closing: closing,
	}))
	t.Cleanup(func() { close(closing); s.Close() })
	return s
}

// TestThousandInABrowser opens the page with a thousand changing flows on sixteen
// devices. It logs the time of an update, which depends on the machine, and bounds the
// number of elements, which does not.
func TestThousandInABrowser(t *testing.T) {
	ctx, complaints := browser(t, 1280, 900)
	var second atomic.Int32
	s := serve(t, func() any { return console.Large(1000, 16, int(second.Add(1))) })
	watch := `(() => { window.long = []; window.updates = 0;
		new PerformanceObserver((l) => { for (const e of l.getEntries()) window.long.push(Math.round(e.duration)); }).observe({type: "longtask"});
		new MutationObserver(() => window.updates++).observe(document.getElementById("clock"), {childList: true, characterData: true, subtree: true}); })()`
	do(ctx, t, performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks),
		chromedp.Navigate(s.URL), until(`document.querySelectorAll("#devices .device").length === 16`),
		chromedp.Evaluate(watch, nil), until(`window.updates >= 2`))
	var count string
	var long []float64
	var updates int
	before := spent(ctx, t)
	do(ctx, t, chromedp.Evaluate(`window.updates = 0; window.long = []`, nil), until(`window.updates >= 10`),
		chromedp.Evaluate(`window.updates`, &updates), chromedp.Evaluate(`window.long`, &long), chromedp.Text("#functions-count", &count))
	after := spent(ctx, t)
	check.Equal(t, count, "1000", "functions on the page")
	t.Logf("%d updates; tasks of more than 50 ms of the clock: %v ms", updates, long)
	for _, name := range []string{"TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration"} {
		t.Logf("%s: %.1f ms of CPU in each update", name, 1000*(after[name]-before[name])/float64(updates))
	}
	shoot(ctx, t, "thousand")
	var rows, elements int
	do(ctx, t, chromedp.Evaluate(`document.querySelectorAll("tbody tr").length`, &rows), chromedp.Evaluate(`document.querySelectorAll("*").length`, &elements))
	t.Logf("%d rows, %d elements", rows, elements)
	check.AtMost(t, rows, 150, "rows on a screen")
	check.AtMost(t, elements, 3000, "elements on a screen")
	// The last row appears after scrolling to it, below nearly a thousand others.
	last := `(() => { const view = document.getElementById("functions").parentElement, all = document.querySelectorAll("#functions tbody tr:not(.gap)");
		const foot = all[all.length - 1].getBoundingClientRect(), box = view.getBoundingClientRect();
		return all[all.length - 1].getAttribute("aria-rowindex") === "1001" && Math.abs(foot.bottom - box.bottom) < 30; })()`
	do(ctx, t, chromedp.Click(`#functions th button`), chromedp.Evaluate(`document.getElementById("functions").parentElement.scrollTop = 1e6`, nil), until(last),
		chromedp.Evaluate(`window.updates = 0`, nil), until(`window.updates >= 1`), until(last))
	if complained := complaints(); len(complained) > 0 {
		t.Errorf("the page complained: %q", complained)
	}
}

// spent returns the CPU time of the page's thread, in seconds by kind.
func spent(ctx context.Context, t *testing.T) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	do(ctx, t, chromedp.ActionFunc(func(ctx context.Context) error {
		all, err := performance.GetMetrics().Do(ctx)
		for _, m := range all {
			out[m.Name] = m.Value
		}
		return err
	}))
	return out
}
