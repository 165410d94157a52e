package console

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

func TestConsoleServes(t *testing.T) {
	fails := false
	h := New(Options{
		Snapshot: func(context.Context) (any, error) {
			if fails {
				return nil, errors.New("dispatcher has ended")
			}
			return map[string]int{"inFlight": 3}, nil
		},
		Explain: func(id string) (any, bool) { return map[string]string{"of": id}, id == "known" },
	})
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/":                                   {200, "<title>GPU Whisk</title>"},
		"/app.js":                             {200, "EventSource"},
		"/vendor/uPlot.js":                    {200, "uPlot"},
		"/vendor/LICENSE":                     {200, "MIT"},
		"/snapshot":                           {200, `{"inFlight":3}`},
		"/explain/known":                      {200, `"of":"known"`},
		"/explain/other":                      {404, "whisk.gpu.explain"},
		"/explain/" + strings.Repeat("k", 65): {404, "error"},
		"/absent":                             {404, ""},
		"/..%2fconsole.go":                    {404, ""},
	} {
		w := get(t, h, path)
		check.Equal(t, w.Code, want.status, "%s", path)
		check.Contains(t, w.Body.String(), want.text, "%s", path)
		check.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'self'", "%s", path)
	}
	if w := httptest.NewRecorder(); true {
		h.ServeHTTP(w, httptest.NewRequest("POST", "/snapshot", nil))
		check.Equal(t, w.Code, http.StatusMethodNotAllowed, "POST")
	}
	fails = true
	h.(http.HandlerFunc)(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	c := New(Options{Snapshot: func(context.Context) (any, error) { return nil, errors.New("ended") }})
	w := get(t, c, "/snapshot")
	check.Equal(t, w.Code, 503, "no snapshot")
	check.Contains(t, w.Body.String(), "ended", "no snapshot")
}

// TestStreamEndsWithItsServer: a stream lasts while the page is open, and ends when the
// server closes.
func TestStreamEndsWithItsServer(t *testing.T) {
	closing := make(chan struct{})
	made := 0
	s := httptest.NewServer(New(Options{
		Snapshot: func(context.Context) (any, error) { made++; return map[string]int{"n": made}, nil },
		Closing:  closing,
	}))
	defer s.Close()
	read := func(encoding string) *bufio.Scanner {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/events", nil)
		req.Header.Set("Accept-Encoding", encoding)
		res, err := http.DefaultTransport.RoundTrip(req)
		check.NoError(t, err)
		t.Cleanup(func() { res.Body.Close() })
		if res.Header.Get("Content-Encoding") != "gzip" {
			return bufio.NewScanner(res.Body)
		}
		z, err := gzip.NewReader(res.Body)
		check.NoError(t, err)
		return bufio.NewScanner(z)
	}
	for _, encoding := range []string{"gzip", "identity"} {
		lines := read(encoding)
		for _, want := range []string{"event: snapshot", `data: {"n":`, "", "event: snapshot", `data: {"n":`} {
			check.That(check.Must(t), lines.Scan(), "%s: %q is awaited: %v", encoding, want, lines.Err())
			check.That(check.Must(t), strings.HasPrefix(lines.Text(), want), "%s: %q, want %q", encoding, lines.Text(), want)
		}
	}
	last := []*bufio.Scanner{read("identity"), read("gzip")}
	close(closing)
	for _, lines := range last { // gzip verifies its checksum
		for lines.Scan() {
		}
		if err := lines.Err(); err != nil {
			t.Errorf("the stream broke: %v", err)
		}
	}
}

// TestPageIsSmall: a browser loads at most 200 KB, without compression.
func TestPageIsSmall(t *testing.T) {
	sum := int64(0)
	err := fs.WalkDir(files, "page", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			i, err := d.Info()
			if err != nil {
				return err
			}
			sum += i.Size()
		}
		return err
	})
	check.NoError(t, err)
	check.AtLeast(t, sum, 20_000)
	check.AtMost(t, sum, 200_000)
}
