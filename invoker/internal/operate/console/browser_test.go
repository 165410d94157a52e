package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// timeout is long enough for a busy machine.
const timeout = 2 * time.Minute

func do(ctx context.Context, t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var seen string
		_ = chromedp.Run(ctx, chromedp.Evaluate(`document.body.innerText`, &seen))
		picture(ctx, "failed")
		t.Fatalf("%v\n%s", err, seen)
	}
}

// until waits until an expression is true in the page. chromedp's own Poll evaluates text
// in the page, which the page's security policy forbids.
func until(expression string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		ctx, end := context.WithTimeout(ctx, timeout)
		defer end()
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		for {
			done := false
			err := chromedp.Evaluate(expression, &done).Do(ctx)
			if done {
				return nil
			}
			select { // elements that are not there yet cause errors
			case <-again.C:
			case <-ctx.Done():
				return fmt.Errorf("waiting for %s: %w (%w)", expression, ctx.Err(), err)
			}
		}
	})
}

// shoot saves a picture of the whole page, for people.
func shoot(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	check.NoError(t, picture(ctx, name))
}

// picture saves a picture in build/console.
func picture(ctx context.Context, name string) error {
	var png []byte
	if err := chromedp.Run(ctx, chromedp.Evaluate(`scrollTo(0, 0)`, nil), chromedp.FullScreenshot(&png, 100)); err != nil {
		return err
	}
	dir := filepath.Join("..", "..", "..", "..", "build", "console")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
}

// platform is a whole OpenWhisk with two simulated GPUs.
type platform struct {
	t       *testing.T
	s       *standalone.Standalone
	invoker *harness.Local
}

func begin(t *testing.T) *platform {
	t.Helper()
	peertest.Tool(t, "python3")
	s, invoker := harness.Standalone(t, standalone.Options{
		GPUs: 2, GPUMemory: 4 * activation.GB, Memory: "4096m", Extra: []string{"CONFIG_whisk_gpu_overrun=2 s"},
	})
	return &platform{t, s, invoker}
}

// ask sends a request to the REST API.
func (p *platform) ask(method, path string, body any) (int, []byte) {
	p.t.Helper()
	b, _ := json.Marshal(body)
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.s.Info().APIHost+path, bytes.NewReader(b))
	check.NoError(p.t, err)
	g := p.s.Info().Guest()
	req.SetBasicAuth(g.UUID, g.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if p.t.Context().Err() == nil {
			p.t.Error(err)
		}
		return 0, nil
	}
	defer res.Body.Close()
	b, _ = io.ReadAll(res.Body)
	return res.StatusCode, b
}

func (p *platform) put(name, memory string) {
	p.t.Helper()
	code := "import time\ndef main(args):\n    time.sleep(args.get('s', 0.1))\n    return {'ok': True}\n"
	body := map[string]any{"exec": map[string]any{"kind": "python:3", "code": code}, "limits": map[string]any{"memory": 128}}
	if memory != "" {
		body["annotations"] = []map[string]any{{"key": "gpu", "value": map[string]any{"memory": memory}}}
	}
	if status, text := p.ask("PUT", "/api/v1/namespaces/_/actions/"+name, body); status != 200 {
		p.t.Fatalf("put %s: %d %s", name, status, text)
	}
}

// TestConsoleInABrowser opens the console of a whole OpenWhisk under load, as a person
// does, and compares the numbers on the page with the calls that were made.
func TestConsoleInABrowser(t *testing.T) {
	ctx, complaints := browser(t, 1280, 900)
	p := begin(t)
	for name, memory := range map[string]string{"resnet": "1 GB", "bert": "2 GB", "whisper": "3 GB", "fft": "512 MB", "hello": ""} {
		p.put(name, memory)
	}
	do(ctx, t, chromedp.Navigate(p.s.Info().APIHost+"/"), until(`document.getElementById("health").textContent === "healthy"`))
	var at string
	do(ctx, t, chromedp.Location(&at))
	if !strings.HasSuffix(at, "/console/") {
		t.Errorf("a browser that asks for / is at %s", at)
	}

	// The load lasts until the page has shown it, even on a slow machine.
	calls, end := p.load("resnet", "bert", "whisper", "fft", "hello")
	busy := `[...document.querySelectorAll("#functions td[data-col=running]")].some((td) => +td.textContent > 0)`
	do(ctx, t, until(busy), until(`document.querySelectorAll("#devices .device").length === 2`),
		until(`[...document.querySelectorAll("#devices .map")].some((c) => c.parts.some((p) => p.flow && p.share > 0.05) &&
			c.getContext("2d").getImageData(5, 5, 1, 1).data[3] === 255)`),
		until(`document.querySelectorAll("#lead canvas").length > 0`))
	shoot(ctx, t, "busy")
	all := end()
	// The invoker's health was tested with one activation, or with more if it sent no
	// ping for a while.
	do(ctx, t, until(fmt.Sprintf(`+document.getElementById("n-done").textContent > %d`, all)))

	for name, made := range calls {
		n := made.Load()
		// The page counts a call when its record is safe, some time after the answer.
		do(ctx, t, until(fmt.Sprintf(`document.querySelector('tr[data-flow="guest/guest/%s"] [data-col=calls]').textContent === "%d"`, name, n)))
		var row struct{ Calls, State, Queued, Failed, Latency string }
		do(ctx, t, chromedp.Evaluate(fmt.Sprintf(`(() => { const tr = document.querySelector('tr[data-flow="guest/guest/%s"]');
			const at = (c) => tr.querySelector("[data-col=" + c + "]").textContent;
			return {Calls: at("calls"), State: at("state"), Queued: at("queued"), Failed: at("failed"), Latency: at("latency")}; })()`, name), &row))
		check.Equal(t, row.Calls, fmt.Sprint(n), "%s on the page", name)
		check.Equal(t, row.Queued, "0", "%s on the page", name)
		check.Equal(t, row.Failed, "0", "%s on the page", name)
		check.That(t, row.Latency != "", "%s on the page", name)
	}
	containers := read[string](ctx, t, `document.getElementById("containers").innerText`)
	check.Contains(t, containers, "whisk.system/invokerHealthTestAction0")
	check.Lacks(t, containers, "wskstandalone")
	p.compareDevices(ctx)
	p.openRecent(ctx)
	keys(ctx, t)
	themes(ctx, t)
	if complained := complaints(); len(complained) > 0 {
		t.Errorf("the page complained: %q", complained)
	}
}

// load calls each function with three callers until end is called. end returns the
// number of calls when all are answered.
func (p *platform) load(names ...string) (calls map[string]*atomic.Int64, end func() (all int64)) {
	stop := make(chan struct{})
	calls = map[string]*atomic.Int64{}
	var callers sync.WaitGroup
	for _, name := range names {
		n := &atomic.Int64{}
		calls[name] = n
		for range 3 {
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if status, text := p.ask("POST", "/api/v1/namespaces/_/actions/"+name+"?blocking=true", map[string]float64{"s": 0.2}); status == 0 {
						return
					} else if status != 200 && status != 202 {
						p.t.Errorf("invoke %s: %d %s", name, status, text)
						return
					}
					n.Add(1)
				}
			})
		}
	}
	return calls, func() (all int64) {
		close(stop)
		callers.Wait()
		for _, n := range calls {
			all += n.Load()
		}
		return all
	}
}

// compareDevices compares the page with /status of the admin port.
func (p *platform) compareDevices(ctx context.Context) {
	t := p.t
	var status struct {
		Status struct {
			Work struct {
				Devices []struct {
					Device           string
					Tokens, InFlight int
				}
				Containers []struct{ Name, Device string }
			}
		}
	}
	code, text := p.ask("GET", "/console/snapshot", nil)
	check.Equal(check.Must(t), code, 200, "%.200s", text)
	check.NoError(t, json.Unmarshal(text, &status), "%.200s", text)
	work := status.Status.Work
	do(ctx, t, until(fmt.Sprintf(`document.getElementById("containers-count").textContent.startsWith("%d:")`, len(work.Containers))))
	if len(work.Devices) != 2 {
		t.Fatalf("%d devices in /status", len(work.Devices))
	}
	for _, d := range work.Devices {
		var text string
		do(ctx, t, chromedp.Text(fmt.Sprintf(`[data-device="%s"]`, d.Device), &text))
		check.Contains(t, text, fmt.Sprintf("%d of %d tokens", d.InFlight, d.Tokens), "device %s on the page", d.Device)
		check.Contains(t, text, "simulated", "device %s on the page", d.Device)
	}
}

// openRecent opens the explanation of the newest activation.
func (p *platform) openRecent(ctx context.Context) {
	var id, story string
	do(ctx, p.t,
		chromedp.Click(`#recent tbody tr:not(.gap)`), until(`document.querySelectorAll("#story-text li").length > 3`),
		chromedp.Text("#story-id", &id), chromedp.Text("#story-text", &story))
	for _, want := range []string{"Accepted", "Started", "Ran", "Answered with success"} {
		check.Contains(p.t, story, want)
	}
	shoot(ctx, p.t, "explain")
	do(ctx, p.t, chromedp.Click("#story .close"), until(`!document.getElementById("story").open`))
	status, text := p.ask("GET", "/console/explain/"+id, nil)
	check.Equal(p.t, status, 200)
	check.Contains(p.t, string(text), id)
}

// keys tries the page's keys.
func keys(ctx context.Context, t *testing.T) {
	t.Helper()
	do(ctx, t,
		chromedp.KeyEvent("/"), until(`document.activeElement.id === "filter"`),
		chromedp.KeyEvent("resn"), until(`document.querySelectorAll("#functions tbody tr:not(.gap)").length === 1`),
		chromedp.KeyEvent(kb.Escape), until(`document.querySelectorAll("#functions tbody tr:not(.gap)").length > 4`),
		chromedp.KeyEvent("?"), until(`document.getElementById("keys").open`),
		chromedp.KeyEvent(kb.Escape), until(`!document.getElementById("keys").open`),
		chromedp.KeyEvent("p"), until(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`),
		chromedp.KeyEvent("p"), until(`document.getElementById("pause").getAttribute("aria-pressed") === "false"`),
	)
}

// themes tries the themes, and the width of a telephone.
func themes(ctx context.Context, t *testing.T) {
	t.Helper()
	background := `getComputedStyle(document.body).backgroundColor`
	var light, dark string
	do(ctx, t, chromedp.KeyEvent("t"), until(`document.documentElement.dataset.theme === "light"`), chromedp.Evaluate(background, &light))
	shoot(ctx, t, "light")
	do(ctx, t, chromedp.KeyEvent("t"), until(`document.documentElement.dataset.theme === "dark"`), chromedp.Evaluate(background, &dark))
	shoot(ctx, t, "dark")
	if light == dark {
		t.Errorf("light and dark are both %s", light)
	}
	// The page adapts to the new width a moment later.
	do(ctx, t, chromedp.EmulateViewport(400, 800), until(`innerWidth === 400 && document.documentElement.scrollWidth <= 400`))
	shoot(ctx, t, "narrow")
}
