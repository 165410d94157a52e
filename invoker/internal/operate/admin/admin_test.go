package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

type pings struct{ on bool }

func (p *pings) Enabled() bool { return p.on }
func (p *pings) Enable() bool  { was := p.on; p.on = true; return !was }
func (p *pings) Disable() bool { was := p.on; p.on = false; return was }

// fallen is a set of fallbacks.
type fallen map[string]bool

func (f *fallen) List() any { return slices.AppendSeq([]string{}, maps.Keys(*f)) }
func (f *fallen) Clear(action string) int {
	before := len(*f)
	if action == "" {
		clear(*f)
	}
	delete(*f, action)
	return before - len(*f)
}

func ask(t *testing.T, h http.Handler, method, path, user string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	if user != "" {
		r.SetBasicAuth(user, "invoker.pass")
	}
	if len(header) > 0 {
		r.Header.Set("X-Request-ID", header[0])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandler(t *testing.T) {
	statusErr := error(nil)
	h := New(Options{
		Instance: "invoker0/0", Username: "invoker.user", Password: "invoker.pass", Header: "X-Request-ID",
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, "metrics") }),
		Pings:   &pings{on: true}, Fallbacks: &fallen{"guest/f": true, "guest/g": true},
		Status: func(context.Context) (any, error) { return map[string]int{"inFlight": 3}, statusErr },
	})
	for _, c := range []struct {
		method, path, user string
		status             int
		want               string
	}{
		{"GET", "/ping", "", 200, "pong"},
		{"GET", "/metrics", "", 200, "metrics"},
		{"GET", "/isEnabled", "", 401, "has failed or not yet been provided"},
		{"GET", "/isEnabled", "stranger", 401, "code"},
		{"GET", "/", "", 401, "error"},
		{"GET", "/isEnabled", "invoker.user", 200, `{"enabled":true}`},
		{"POST", "/enable", "invoker.user", 200, "invoker0/0 is already enabled."},
		{"POST", "/disable", "invoker.user", 200, "invoker0/0 is now disabled."},
		{"POST", "/disable", "invoker.user", 200, "invoker0/0 is already disabled."},
		{"GET", "/isEnabled", "invoker.user", 200, `{"enabled":false}`},
		{"POST", "/enable", "invoker.user", 200, "invoker0/0 is now enabled."},
		{"GET", "/pool/count", "invoker.user", 404, "The requested resource could not be found."},
		{"GET", "/status", "", 401, "error"},
		{"GET", "/fallbacks", "", 401, "error"},
		{"DELETE", "/fallbacks?all=true", "", 401, "error"},
		{"GET", "/fallbacks", "invoker.user", 200, `"guest/f"`},
		{"DELETE", "/fallbacks", "invoker.user", 400, "?action="},
		{"DELETE", "/fallbacks?action=guest/f&all=true", "invoker.user", 400, "?action="},
		{"DELETE", "/fallbacks?action=guest/h", "invoker.user", 404, "guest/h has not fallen back"},
		{"DELETE", "/fallbacks?action=guest/f", "invoker.user", 200, `"cleared": 1`},
		{"DELETE", "/fallbacks?action=guest/f", "invoker.user", 404, "has not fallen back"},
		{"DELETE", "/fallbacks?all=true", "invoker.user", 200, `"cleared": 1`},
		{"GET", "/fallbacks", "invoker.user", 200, `[]`},
		{"GET", "/status", "invoker.user", 200, `"inFlight": 3`},
	} {
		w := ask(t, h, c.method, c.path, c.user)
		check.Equal(t, w.Code, c.status, "%s %s", c.method, c.path)
		check.Contains(t, w.Body.String(), c.want, "%s %s", c.method, c.path)
		check.That(t, w.Header().Get("X-Request-ID") != "", "%s %s", c.method, c.path)
	}
	statusErr = errors.New("dispatcher has ended")
	check.Equal(t, ask(t, h, "GET", "/status", "invoker.user").Code, 503, "status with an error")
}

// TestForeignPagesChangeNothing: requests of a page from another origin are refused,
// even with the right login.
func TestForeignPagesChangeNothing(t *testing.T) {
	on := &pings{on: true}
	h := New(Options{Username: "invoker.user", Password: "invoker.pass", Header: "X-Request-ID", Pings: on})
	for name, c := range map[string]struct {
		header, value string
		status        int
	}{
		"a form of another site":       {"Sec-Fetch-Site", "cross-site", 403},
		"another port of this host":    {"Sec-Fetch-Site", "same-site", 403},
		"an older browser":             {"Origin", "http://evil.example", 403},
		"an opaque origin":             {"Origin", "null", 403},
		"the console's own page":       {"Sec-Fetch-Site", "same-origin", 200},
		"its page in an older browser": {"Origin", "http://example.com", 200},
		"no browser":                   {"Accept", "*/*", 200},
	} {
		r := httptest.NewRequest("POST", "http://example.com/disable", nil)
		r.SetBasicAuth("invoker.user", "invoker.pass")
		r.Header.Set(c.header, c.value)
		w := httptest.NewRecorder()
		on.on = true
		h.ServeHTTP(w, r)
		check.Equal(t, w.Code, c.status, "%s: %s", name, w.Body)
		check.Equal(t, on.on, c.status == 403, "%s", name)
	}
}

func TestTransactionIDs(t *testing.T) {
	h := New(Options{Header: "X-Request-ID", Pings: &pings{}})
	check.Equal(t, ask(t, h, "GET", "/ping", "", "mine").Header().Get("X-Request-ID"), "mine")
	if got := ask(t, h, "GET", "/ping", "", "sid_fake").Header().Get("X-Request-ID"); strings.HasPrefix(got, "sid_") {
		t.Errorf("id %q of the system was taken from a caller", got)
	}
}

// TestRequestsAreReported: each request is reported with its status, and the answer has
// the caller's id.
func TestRequestsAreReported(t *testing.T) {
	var reported []string
	h := New(Options{Username: "invoker.user", Password: "invoker.pass", Header: "X-Request-ID", Pings: &pings{},
		Answered: func(method string, status int, _ time.Duration) {
			reported = append(reported, fmt.Sprint(method, " ", status))
		}})
	ask(t, h, "GET", "/ping", "", "a")
	ask(t, h, "POST", "/enable", "", "b")
	ask(t, h, "POST", "/enable", "invoker.user", "c")
	check.EqualSlices(t, reported, []string{"GET 200", "POST 401", "POST 200"})
}

// TestWhoIsServed: without a password only this machine is served. With a well-known
// password, requests for foreign host names are refused.
func TestWhoIsServed(t *testing.T) {
	const here, container = "127.0.0.1:4711", "172.17.0.2:4711"
	unset := Options{LocalOnly: true, Names: []string{"gpu1.example", "gpu1"}}
	known := Options{Names: unset.Names}
	own := Options{}
	for _, c := range []struct {
		what       string
		o          Options
		from, host string
		status     int
		why        string
	}{
		{"unset, from here", unset, here, "127.0.0.1:8080", 200, ""},
		{"unset, from here by IPv6", unset, "[::1]:4711", "[::1]:8080", 200, ""},
		{"unset, from here, IPv4 in IPv6", unset, "[::ffff:127.0.0.1]:4711", "localhost:8080", 200, ""},
		{"unset, from a container", unset, container, "172.17.0.1:8080", 403, "whisk.invoker.password"},
		{"unset, a page's name", unset, here, "evil.example:8080", 403, "whisk.invoker.password"},
		{"well known, from another host", known, container, "10.0.0.1:8080", 200, ""},
		{"well known, its name", known, container, "GPU1:8080", 200, ""},
		{"well known, its full name", known, container, "gpu1.example", 200, ""},
		{"well known, localhost", known, here, "LOCALHOST", 200, ""},
		{"well known, an IPv6 address", known, here, "[2001:db8::1]", 200, ""},
		{"well known, a page's name", known, here, "evil.example:8080", 403, "whisk.invoker.password"},
		{"well known, an empty host", known, here, "", 403, "whisk.invoker.password"},
		{"of its own, any name", own, container, "invoker7.example:12001", 200, ""},
	} {
		on := &pings{on: true}
		c.o.Username, c.o.Password, c.o.Header, c.o.Pings = "invoker.user", "invoker.pass", "X-Request-ID", on
		c.o.Status = func(context.Context) (any, error) { return "status", nil }
		for _, path := range []string{"POST /disable", "GET /status", "GET /ping"} {
			method, path, _ := strings.Cut(path, " ")
			r := httptest.NewRequest(method, path, nil)
			r.RemoteAddr, r.Host = c.from, c.host
			r.SetBasicAuth("invoker.user", "invoker.pass")
			w := httptest.NewRecorder()
			New(c.o).ServeHTTP(w, r)
			if path == "/ping" {
				check.Equal(t, w.Code, 200, "%s: %s", c.what, path)
				continue
			}
			check.Equal(t, w.Code, c.status, "%s: %s: %s", c.what, path, w.Body)
			check.Contains(t, w.Body.String(), c.why, "%s: %s", c.what, path)
		}
		check.Equal(t, on.on, c.status == 403, "%s: work is still sent", c.what)
	}
}
