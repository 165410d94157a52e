package console_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestForeignPagesInABrowser: a page of another origin can neither deploy an action,
// even by the right key, nor disable the invoker by its login.
func TestForeignPagesInABrowser(t *testing.T) {
	ctx, _ := browser(t, 800, 600)
	p := begin(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<!doctype html><title>elsewhere</title><body>elsewhere</body>")
	}))
	defer page.Close()

	g := p.s.Info().Guest()
	put, _ := json.Marshal(map[string]any{"exec": map[string]string{"kind": "python:3", "code": "def main(args): return args"}})
	do(ctx, t, chromedp.Navigate(page.URL), chromedp.Evaluate(fmt.Sprintf(`fetch(%q, {method: "PUT", body: %q, headers: {
		"Content-Type": "application/json", Authorization: "Basic " + btoa(%q)}}).then(() => window.ended = "answered", () => window.ended = "refused"); 0`,
		p.s.Info().APIHost+"/api/v1/namespaces/_/actions/evil", put, g.AuthKey()), nil), until(`window.ended !== undefined`))
	var ended string
	do(ctx, t, chromedp.Evaluate(`window.ended`, &ended))
	check.Equal(t, ended, "refused", "an action by a foreign page")
	status, _ := p.ask("GET", "/api/v1/namespaces/_/actions/evil", nil)
	check.Equal(t, status, 404, "the action of a foreign page")

	admin := p.invoker.Admin()
	do(ctx, t, chromedp.Navigate(page.URL), chromedp.Evaluate(fmt.Sprintf(`(() => { const form = document.createElement("form");
		form.method = "POST"; form.action = "http://%s:%s@%s/disable"; document.body.append(form); form.submit(); })()`,
		admin.User, admin.Password, p.invoker.Addr()), nil), until(`document.body.innerText.includes("of another origin")`))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin.URL+"/isEnabled", nil)
	check.NoError(t, err)
	req.SetBasicAuth(admin.User, admin.Password)
	res, err := http.DefaultClient.Do(req)
	check.NoError(t, err)
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); string(text) != `{"enabled":true}` {
		t.Errorf("after the form of a foreign page: %d %s", res.StatusCode, text)
	}
}
