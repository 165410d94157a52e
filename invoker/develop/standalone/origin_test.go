package standalone

import (
	"net/http"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
)

// TestForeignOrigins: the API serves no web pages of other origins, and refuses requests for
// host names.
func TestForeignOrigins(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo}, nil)
	d := at(t, s)
	check.Equal(t, s.api.ReadTimeout, httpserver.RequestTime)
	const body = `{"exec":{"kind":"nodejs:20","code":"function main() {}"}}`
	for _, c := range []struct {
		what, header, value string
		status              int
	}{
		{"no browser", "Accept", "*/*", 200},
		{"another site", "Sec-Fetch-Site", "cross-site", 403},
		{"another port", "Sec-Fetch-Site", "same-site", 403},
		{"an older browser", "Origin", "http://evil.example", 403},
		{"no origin", "Origin", "null", 403},
		{"its own page", "Sec-Fetch-Site", "same-origin", 200},
	} {
		got := d.do("PUT", actions+"a?overwrite=true", body, c.header, c.value)
		check.Equal(t, got.status, c.status, "%s: %s", c.what, got.body)
		check.Equal(t, got.header.Get("Access-Control-Allow-Origin"), "", "%s", c.what)
	}
	got := d.do("OPTIONS", actions+"a", "", "Origin", "http://evil.example")
	check.Equal(t, got.header.Get("Access-Control-Allow-Origin"), "", "a question for permission")
	got = d.anonymous().do("POST", "/api/v1/web/guest/default/none", "", "Origin", "http://evil.example")
	check.Equal(t, got.status, 403, "a foreign page that calls a web action")
	for host, status := range map[string]int{"evil.example:3233": 403, "localhost:3233": 200, "LOCALHOST": 200, "[::1]:3233": 200, "127.0.0.1": 200} {
		req, err := http.NewRequest(http.MethodGet, d.host+actions+"a", nil)
		check.NoError(t, err)
		req.Host = host
		req.SetBasicAuth(s.Info().Guest().UUID, s.Info().Guest().Key)
		res, err := http.DefaultClient.Do(req)
		check.NoError(t, err)
		res.Body.Close()
		check.Equal(t, res.StatusCode, status, "host %s", host)
	}
}
