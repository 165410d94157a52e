package load

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// client sends its requests to a handler as to an OpenWhisk.
func client(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := NewClient(Access{APIHost: s.URL + "/", Auth: "user:secret-key", InFlight: 2})
	check.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestAnswersAreDistinguished(t *testing.T) {
	const id = `"activationId":"0123456789abcdef0123456789abcdef"`
	for name, c := range map[string]struct {
		status int
		body   string
		want   Answer
	}{
		"GPU run":        {200, `{` + id + `,"response":{"status":"success","success":true},"annotations":[{"key":"initTime","value":3},{"key":"gpu","value":{"start":"host-warm"}}]}`, Answer{Ran: true, Start: "host-warm"}},
		"CPU run":        {200, `{` + id + `,"response":{"status":"success","success":true},"annotations":[]}`, Answer{Ran: true}},
		"other's gpu":    {200, `{` + id + `,"response":{"success":true},"annotations":[{"key":"gpu","value":true}]}`, Answer{Ran: true}},
		"function fails": {502, `{` + id + `,"response":{"status":"application error","success":false}}`, Answer{Ran: true, Failure: "application error"}},
		"throttled":      {429, `{"code":"x","error":"Too many requests in the last minute (count: 61, allowed: 60)."}`, Answer{Failure: "429 Too Many Requests", Detail: "Too many requests in the last minute (count: 61, allowed: 60)."}},
		"gateway":        {502, "<html>\n  no upstream</html>", Answer{Failure: "502 Bad Gateway", Detail: "<html> no upstream</html>"}},
		"nothing":        {200, "", Answer{Failure: "200 OK"}},
		"no object":      {200, "[1]", Answer{Failure: "200 OK", Detail: "[1]"}},
	} {
		got := client(t, func(w http.ResponseWriter, r *http.Request) {
			user, key, _ := r.BasicAuth()
			check.Equal(t, r.Method, "POST", "%s", name)
			check.Equal(t, r.URL.String(), "/api/v1/namespaces/_/actions/p/a%20b?blocking=true", "%s", name)
			check.Equal(t, user, "user", "%s", name)
			check.Equal(t, key, "secret-key", "%s", name)
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}).Invoke(t.Context(), "p/a b")
		if c.want.Ran {
			c.want.ID = "0123456789abcdef0123456789abcdef"
			if c.want.Failure != "" {
				c.want.Detail = "activation " + c.want.ID
			}
		}
		check.Equal(t, got, c.want, "%s", name)
	}
}

// TestALongRunIsFollowedByItsRecord: the client polls the record of a call that takes
// longer than OpenWhisk waits.
func TestALongRunIsFollowedByItsRecord(t *testing.T) {
	var asked atomic.Int64
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == "POST":
			w.WriteHeader(202)
			_, _ = w.Write([]byte(`{"activationId":"a1"}`))
		case asked.Add(1) == 1:
			w.WriteHeader(404)
		default:
			_, _ = w.Write([]byte(`{"activationId":"a1","response":{"status":"success","success":true},"annotations":[{"key":"gpu","value":{"start":"cold"}}]}`))
		}
	})
	check.Equal(t, c.Invoke(t.Context(), "a"), Answer{ID: "a1", Ran: true, Start: "cold"})
	check.Equal(t, asked.Load(), 2)
}

func TestBrokenConnections(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	secure.Config.ErrorLog = nil
	for host, want := range map[string]string{gone.URL: "connection refused", secure.URL: "certificate not trusted (--insecure takes it)"} {
		c, err := NewClient(Access{APIHost: host, Auth: "user:secret-key", InFlight: 1})
		check.NoError(t, err)
		got := c.Invoke(t.Context(), "a")
		check.Equal(t, got.Failure, want)
		check.That(t, !got.Ran, "%s", want)
		check.Lacks(t, got.Detail, "secret")
		check.ErrorContains(t, c.Check(t.Context(), []string{"a"}), want)
		c.Close()
	}
	broken := client(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	check.Equal(t, broken.Invoke(t.Context(), "a").Failure, "connection broken")
}

func TestWrongWords(t *testing.T) {
	for _, a := range []Access{
		{APIHost: "", Auth: "a:b"}, {APIHost: "ftp://x", Auth: "a:b"}, {APIHost: "http://u:p@x", Auth: "a:b"}, {APIHost: "http://x"},
		{APIHost: "http://x", Auth: "a"}, {APIHost: "http://x", Auth: "secret:"}, {APIHost: "http://x", Auth: "a:b", Parameters: []byte("[]")},
		{APIHost: "http://x", Auth: "a:b", Parameters: []byte("null")},
	} {
		_, err := NewClient(a)
		check.That(check.Must(t), err != nil, "%+v", a)
		check.Lacks(t, err.Error(), "secret")
	}
	for name, want := range map[string]string{
		"a": "_/actions/a", "p/a": "_/actions/p/a", "/ns/a": "ns/actions/a", "/ns/p/a": "ns/actions/p/a", "/_/a": "_/actions/a",
		"": "", "/a": "", "p/q/a": "", "/ns/p/q/a": "", "a/": "", "../a": "",
	} {
		got, err := path(name)
		check.Equal(t, got, want, "%q", name)
		check.Equal(t, err != nil, want == "", "%q: %v", name, err)
	}
}

// FuzzAnswer: whatever answers, a call has one outcome.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"activationId":"a","response":{"success":true},"annotations":[{"key":"gpu","value":{"start":"cold"}}]}`))
	f.Add([]byte(`{"error":{"a":1}}`))
	f.Add([]byte(`{"activationId":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var a record
		if json.Unmarshal(body, &a) == nil {
			check.That(t, a.Annotations.Start() != "")
		}
		text := errorText(body)
		check.AtMost(t, len([]rune(text)), 200, "%q", text)
		check.Lacks(t, text, "\n")
	})
}
