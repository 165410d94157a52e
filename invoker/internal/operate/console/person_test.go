package console_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/console"
)

// busyPage opens the page of a made-up invoker whose activations and containers change
// every second.
func busyPage(t *testing.T, width int) (ctx context.Context, complaints func() []string) {
	t.Helper()
	ctx, complaints = browser(t, width, 900)
	var second atomic.Int32
	snapshot := func() any {
		n := int(second.Add(1))
		s := console.Large(12, 2, n)
		for i := range s.Recent { // one activation a second
			s.Recent[i].ID = fmt.Sprintf("%032x", 1000+n-i)
		}
		return s
	}
	s := serveExplained(t, snapshot, func(id string) (any, bool) {
		sentences := []map[string]string{{"at": "2026-01-02T03:04:05.678Z", "text": "Accepted."}}
		trace := map[string]string{"activationId": id, "namespace": "guest", "action": "guest/fft"}
		return map[string]any{"trace": trace, "sentences": sentences}, id != "unknown"
	})
	do(ctx, t, chromedp.Navigate(s.URL), until(`document.querySelectorAll("#recent tbody tr.link").length > 5`),
		until(`document.querySelectorAll("#lead .u-value").length > 3`))
	return ctx, complaints
}

// read returns the value of an expression in the page.
func read[T any](ctx context.Context, t *testing.T, expression string) (v T) {
	t.Helper()
	do(ctx, t, chromedp.Evaluate(expression, &v))
	return v
}

// TestKeyboardInABrowser: Enter on a row shows its details. Esc gives the focus back to the
// same row, even if the row has moved.
func TestKeyboardInABrowser(t *testing.T) {
	ctx, complaints := busyPage(t, 1400)
	row := read[string](ctx, t, `(() => { const tr = document.querySelectorAll("#recent tbody tr.link")[1]; tr.focus(); return tr.dataset.id; })()`)
	do(ctx, t, chromedp.KeyEvent(kb.Enter), until(`document.getElementById("story").open && document.getElementById("story-title").textContent === "guest/fft"`))
	check.Equal(t, read[string](ctx, t, `document.getElementById("story-id").textContent`), row)
	check.Equal(t, read[string](ctx, t, `document.getElementById("story-date").textContent`), "2026-01-02")
	do(ctx, t, until(fmt.Sprintf(`document.querySelectorAll("#recent tbody tr.link")[1].dataset.id !== %q`, row)), // others have come
		chromedp.KeyEvent(kb.Escape), until(`!document.getElementById("story").open`))
	do(ctx, t, until(fmt.Sprintf(`document.activeElement.dataset.id === %q`, row)))

	do(ctx, t, chromedp.Focus("#lookup"), chromedp.SendKeys("#lookup", "unknown"+kb.Enter),
		until(`document.getElementById("story").open && document.getElementById("story-text").textContent.includes("no trace")`))
	check.Equal(t, read[string](ctx, t, `document.getElementById("story-title").textContent`), "Activation", "the title of an unknown id")
	do(ctx, t, chromedp.KeyEvent(kb.Escape), until(`!document.getElementById("story").open`))
	do(ctx, t, until(`document.activeElement.id === "lookup"`))

	name := read[string](ctx, t, `(() => { const tr = document.querySelector("#functions tbody tr.link"); tr.focus(); return tr.dataset.flow; })()`)
	do(ctx, t, chromedp.KeyEvent(kb.Enter), until(`document.getElementById("whole").open`))
	whole := read[string](ctx, t, `document.getElementById("whole").innerText`)
	for _, want := range []string{strings.Join(strings.Split(name, "/")[1:], "/"), "no token; last chosen by order", "3 host-warm, 2 cold"} {
		check.Contains(t, whole, want, "the whole row")
	}
	do(ctx, t, chromedp.KeyEvent(kb.Escape), until(fmt.Sprintf(`document.activeElement.dataset.flow === %q`, name)))
	check.Equal(t, len(complaints()), 0, "%q", complaints())
}

// TestLabelsInABrowser checks labels, times and scales for people.
func TestLabelsInABrowser(t *testing.T) {
	ctx, complaints := busyPage(t, 1400)
	legend := read[string](ctx, t, `document.querySelector("#lead .u-legend").innerText`)
	check.Lacks(t, legend, "--")
	check.That(t, regexp.MustCompile(`\d\d:\d\d:\d\d`).MatchString(legend), "%s", legend)
	body := read[string](ctx, t, `document.body.innerText`)
	for _, pattern := range []string{`\d ?[AaPp][Mm]\b`, `\d/\d+/\d`, `\(gpu\)`, `of tokens`, `wsk00_`} {
		check.That(t, !regexp.MustCompile(pattern).MatchString(body), "%s is on the page", pattern)
	}
	check.Contains(t, body, "GPU 0, NVIDIA A100")
	do(ctx, t, chromedp.Evaluate(`import(location.href + "util.js").then((m) => { window.util = m; }); import(location.href + "devices.js").then((m) => { window.parts_ = m; });
		import(location.href + "tables.js").then((m) => { window.tables = m; }); 0`, nil),
		until(`!!(window.util && window.parts_ && window.tables)`))
	for expression, want := range map[string]string{
		`util.scale(0.2, 10) < 1`: "true", // all leads lie near 0: T is not on the axis
		`util.scale(5, 10) > 10`:  "true",
		`util.scale(0, 0) > 0`:    "true",
		`util.scale(12, 10) > 12`: "true",
		`util.seconds(0.05)`:      "50 ms",
		`util.seconds(2.5)`:       "2.5 s",
		`util.short("guest/guest/fft") + " " + util.short("guest/other/pkg/f")`:                  "guest/fft guest/other/pkg/f",
		`parts_.deviceName("0 (gpu, simulated)")`:                                                "GPU 0",
		`parts_.deviceName("1 (NVIDIA A100)")`:                                                   "GPU 1, NVIDIA A100",
		`tables.containerFor({flow: "guest/guest/fft", name: "x"})`:                              "guest/fft",
		`tables.containerFor({function: "whisk.system/whisk.system/health", name: "x"})`:         "whisk.system/health",
		`tables.containerFor({name: "wskstandalone1a2b_6_guest_hello_world", kind: "python:3"})`: "guest/hello_world",
		`tables.containerFor({name: "wsk00_12_prewarm_nodejs20", kind: "nodejs:20"})`:            "any nodejs:20",
	} {
		check.Equal(t, read[string](ctx, t, "String("+expression+")"), want, "%s", expression)
	}
	landmarks := read[bool](ctx, t, `!!document.getElementById("reasons").closest("header, main")`)
	check.That(t, landmarks, "the reasons are in no landmark")
	distinct(t, read[map[string]string](ctx, t, `util.startColours`))
	check.Equal(t, len(complaints()), 0, "%q", complaints())
}

// distinct demands that people can distinguish any two colours, the colour-blind too.
func distinct(t *testing.T, colours map[string]string) {
	t.Helper()
	// How red, green and blue light appear without one kind of cone (Machado, Oliveira and
	// Fernandes 2009).
	sights := map[string][3][3]float64{
		"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
		"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
		"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
	}
	for sight, matrix := range sights {
		for a, textA := range colours {
			for b, textB := range colours {
				if a >= b {
					continue
				}
				d := distance(lab(matrix, textA), lab(matrix, textB))
				check.That(t, d >= 12, "%s and %s differ by %.0f for %s sight", a, b, d, sight)
			}
		}
	}
	check.AtLeast(t, len(colours), 6)
}

func distance(a, b [3]float64) float64 {
	return math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2])
}

// lab converts a colour such as #0072b2, as seen through a matrix, to CIE L*a*b*.
func lab(matrix [3][3]float64, text string) (out [3]float64) {
	var light, seen [3]float64
	for i := range light {
		n, _ := strconv.ParseUint(text[1+2*i:3+2*i], 16, 8)
		if v := float64(n) / 255; v <= 0.04045 {
			light[i] = v / 12.92
		} else {
			light[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	for i := range seen {
		for j := range light {
			seen[i] += matrix[i][j] * light[j]
		}
		seen[i] = min(1, max(0, seen[i]))
	}
	xyz := [3]float64{
		(0.4124*seen[0] + 0.3576*seen[1] + 0.1805*seen[2]) / 0.9505,
		0.2126*seen[0] + 0.7152*seen[1] + 0.0722*seen[2],
		(0.0193*seen[0] + 0.1192*seen[1] + 0.9505*seen[2]) / 1.089,
	}
	for i, v := range xyz {
		if v > 0.008856 {
			xyz[i] = math.Cbrt(v)
		} else {
			xyz[i] = 7.787*v + 16.0/116
		}
	}
	return [3]float64{116*xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])}
}

// TestWidthsInABrowser: the page fits into the window, down to the smallest telephones.
func TestWidthsInABrowser(t *testing.T) {
	ctx, complaints := busyPage(t, 1400)
	shoot(ctx, t, "wide")
	for _, width := range []int{768, 320} {
		do(ctx, t, chromedp.EmulateViewport(int64(width), 900),
			until(fmt.Sprintf(`innerWidth === %d && document.documentElement.scrollWidth <= %d`, width, width)))
		over := read[[]string](ctx, t, `[...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, #devices, dialog") && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.tagName + "#" + e.id + "." + e.className)`)
		check.Equal(t, len(over), 0, "at %d px beyond the edge: %q", width, over)
		shoot(ctx, t, fmt.Sprint(width))
	}
	check.Equal(t, len(complaints()), 0, "%q", complaints())
}
