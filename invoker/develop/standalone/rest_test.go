package standalone

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// apiClient sends requests unchanged.
type apiClient struct {
	t    *testing.T
	host string
	auth string // user:password, empty: no login
}

func at(t *testing.T, s *Standalone) apiClient {
	return apiClient{t, s.Info().APIHost, s.Info().Guest().AuthKey()}
}

func (d apiClient) anonymous() apiClient { d.auth = ""; return d }

type answer struct {
	status int
	header http.Header
	body   string
}

func (d apiClient) do(method, path, body string, headers ...string) answer {
	d.t.Helper()
	req, err := http.NewRequest(method, d.host+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if user, password, ok := strings.Cut(d.auth, ":"); ok {
		req.SetBasicAuth(user, password)
	}
	res, err := http.DefaultTransport.RoundTrip(req) // redirects are answers, too
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(b)}
}

// equals sends a request and checks the whole answer.
func (d apiClient) equals(method, path, body string, status int, want string) {
	d.t.Helper()
	got := d.do(method, path, body)
	check.Equal(d.t, got.status, status, "%s %s: %s", method, path, got.body)
	check.Equal(d.t, got.body, want, "%s %s", method, path)
}

// contains sends a request and checks a part of the answer.
func (d apiClient) contains(method, path, body string, status int, part string) {
	d.t.Helper()
	got := d.do(method, path, body)
	check.Equal(d.t, got.status, status, "%s %s: %s", method, path, got.body)
	check.Contains(d.t, got.body, part, "%s %s", method, path)
}

func (d apiClient) put(path, body string) {
	d.t.Helper()
	a := d.do("PUT", "/api/v1/namespaces/_/"+path, body)
	check.Equal(check.Must(d.t), a.status, 200, "put %s: %s", path, a.body)
}

const actions = "/api/v1/namespaces/_/actions/"

func TestAnswersHaveTheShapeOfTheController(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo}, nil)
	d := at(t, s)
	d.put("actions/hello", `{"exec":{"kind":"nodejs:20","code":"x"}}`)

	got := d.do("POST", actions+"hello?blocking=true", `{"name":"World"}`)
	var fields map[string]json.RawMessage
	check.NoError(t, json.Unmarshal([]byte(got.body), &fields))
	for _, name := range []string{"activationId", "annotations", "duration", "end", "logs", "name", "namespace", "publish", "response", "start", "subject", "version"} {
		check.That(t, fields[name] != nil, "an activation has no %s: %s", name, got.body)
	}
	check.Equal(t, string(fields["response"]), `{"result":{"name":"World"},"size":16,"status":"success","success":true}`)
	check.Equal(t, string(fields["logs"]), "[]")
	id := strings.Trim(string(fields["activationId"]), `"`)
	check.Equal(t, got.header.Get("x-openwhisk-activation-id"), id)
	check.That(t, got.header.Get("X-Request-ID") != "")
	check.Equal(t, got.header.Get("Access-Control-Allow-Origin"), "")
	got = d.do("POST", actions+"hello?blocking=false", `{}`)
	check.Equal(t, got.status, 202, "not blocking")
	check.Equal(t, len(got.body), len(`{"activationId":"`)+32+len(`"}`), "%s", got.body)
	d.equals("POST", actions+"hello?blocking=true&result=true", `{"fail":{"m":1}}`, 502, `{"error":{"m":1}}`)
	got = d.do("GET", actions+"none", "", "X-Request-ID", "mine")
	check.Equal(t, got.status, 404)
	check.Equal(t, got.body, `{"code":"mine","error":"The requested resource does not exist."}`)
	check.Equal(t, got.header.Get("X-Request-ID"), "mine")
	got = d.do("GET", actions+"none", "", "X-Request-ID", "sid_invokerHealth")
	check.That(t, got.header.Get("X-Request-ID") != "sid_invokerHealth", "a caller took a name of the system")
	d.equals("GET", "/api/v1/namespaces/_/limits", "", 200, `{"concurrentInvocations":10000,"firesPerMinute":1000000,"invocationsPerMinute":1000000,"maxActionConcurrency":1,"maxActionInstances":10000,"maxActionLogs":10,"maxActionMemory":512,"maxActionTimeout":300000,"maxParameterSize":"1048576 B","minActionConcurrency":1,"minActionLogs":0,"minActionMemory":128,"minActionTimeout":100}`)
	d.anonymous().equals("GET", "/ping", "", 200, "pong")
	d.anonymous().equals("GET", "/invokers", "", 200, `{"invoker0/standalone":"up"}`)
	d.anonymous().equals("GET", "/invokers/ready", "", 200, `{"healthy":"1/1"}`)
	d.anonymous().contains("OPTIONS", actions+"hello", "", 405, "HTTP method not allowed")
	root := d.anonymous().do("GET", "/", "")
	check.Contains(t, root.body, `"runtimes":{"native":[`)
	check.Contains(t, root.body, `"sequence_length":50`)
}

func TestRefusals(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo}, func(o *Options) {
		o.Namespaces = []Namespace{{Name: "other", UUID: "u-other", Key: "k-other"}}
	})
	d := at(t, s)
	d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	d.put("packages/p", `{}`)
	d.put("actions/final", `{"exec":{"kind":"nodejs:20","code":"x"},"annotations":[{"key":"final","value":true}],"parameters":[{"key":"set","value":1},{"key":"open","value":""}]}`)
	wrong, anonymous, other := d, d.anonymous(), d
	wrong.auth = s.Info().Guest().UUID + ":wrong"
	other.auth = "u-other:k-other"
	big := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	cases := []struct {
		user         apiClient
		method, path string
		body         string
		status       int
		text         string
	}{
		{anonymous, "GET", actions, "", 401, "The resource requires authentication, which was not supplied with the request"},
		{wrong, "GET", actions, "", 401, "The supplied authentication is invalid"},
		{d, "GET", "/api/v1/namespaces/other/actions", "", 403, "not authorized"},
		{d, "POST", "/api/v1/namespaces/other/actions/x", "{}", 403, "not authorized"},
		{other, "GET", "/api/v1/namespaces/guest/packages/p", "", 403, "not authorized"},
		{d, "PUT", actions + "a", `{"exec":{"kind":"nodejs:20","code":"y"}}`, 409, "resource already exists"},
		{d, "PUT", actions + "p?overwrite=true", `{"exec":{"kind":"nodejs:20","code":"y"}}`, 409, "Resource by this name exists but is not in this collection."},
		{d, "GET", actions + "p", "", 409, "not in this collection"},
		{d, "PUT", actions + "b", `{"exec":{"kind":"cobol","code":"y"}}`, 400, "kind 'cobol' not in Set("},
		{d, "PUT", actions + "b", `{"exec":`, 400, "The request content was malformed"},
		{d, "PUT", actions + "b", `{}`, 400, "exec undefined"},
		{d, "PUT", actions + "none/b", `{"exec":{"kind":"nodejs:20","code":"y"}}`, 404, "does not exist"},
		{d, "PUT", actions + "b%2Fc", `{}`, 400, "illegal characters"},
		{d, "PUT", actions + "b", `{"exec":{"kind":"nodejs:20","code":"y"},"parameters":[{"key":"k","value":` + `"` + strings.Repeat("x", 1<<20) + `"}]}`, 413, "parameters larger than allowed"},
		{d, "POST", actions + "a", big, 413, "larger than allowed"},
		{d, "POST", actions + "a", `"text"`, 400, "malformed"},
		{d, "POST", actions + "a?blocking=perhaps", `{}`, 400, "'blocking' was malformed"},
		{d, "POST", actions + "a?blocking=true&timeout=99999999", `{}`, 400, "Timeout must be number of milliseconds up to 60000."},
		{d, "POST", actions + "final", `{"set":2}`, 400, "Request defines parameters that are not allowed"},
		{d, "DELETE", actions + "none", "", 404, "does not exist"},
		{d, "GET", actions + "?limit=201", "", 400, "The value '201' is not in the range of 0 to 200 for actions."},
		{d, "GET", actions + "?limit=x", "", 400, "is not an integer for actions."},
		{d, "GET", actions + "?skip=-1", "", 400, "greater than or equal to 0"},
		{d, "GET", "/api/v1/namespaces/_/activations/xyz", "", 400, "The activation id is not valid."},
		{d, "GET", "/api/v1/namespaces/_/activations/" + strings.Repeat("a", 32), "", 404, "does not exist"},
		{d, "GET", "/api/v1/namespaces/_/activations?count=true&docs=true", "", 400, "'docs' is not permitted with 'count'"},
		{d, "GET", "/api/v1/namespaces/_/activations?since=yesterday", "", 400, "epoch seconds"},
		{d, "PUT", "/api/v1/namespaces/_/packages/default", `{}`, 400, "Package name 'default' is reserved."},
		{d, "PUT", "/api/v1/namespaces/_/packages/q", `{"binding":{"namespace":"_","name":"none"}}`, 400, "Binding references a package that does not exist."},
		{d, "PUT", "/api/v1/namespaces/_/packages/p?overwrite=true", `{"binding":{"namespace":"_","name":"p"}}`, 409, "cannot be converted into a binding"},
		{d, "POST", "/api/v1/namespaces/_/triggers/t", `{}`, 501, "is not supported here, by gpuwhisk standalone."},
		{d, "PUT", "/api/v1/namespaces/_/rules/r", `{"trigger":"/_/t","action":"/_/a"}`, 501, "is not supported here, by gpuwhisk standalone."},
		{d, "PATCH", actions + "a", "", 405, "not allowed"},
		{d, "GET", "/api/v1/namespaces/_/apis", "", 501, "is not supported here, by gpuwhisk standalone."},
		{d, "GET", "/api/v1/web/guest/default/a", "", 501, "is not supported here, by gpuwhisk standalone."},
		{d, "POST", "/api/v1/namespaces/whisk.system/actions/alarms/alarm", "{}", 501, "'/whisk.system/alarms' is not supported here"},
		{d, "GET", "/docs", "", 501, "is not supported here"},
		{d, "GET", "/elsewhere", "", 501, "is not supported here, by gpuwhisk standalone."},
	}
	for _, c := range cases {
		got := c.user.do(c.method, c.path, c.body)
		var e struct{ Code, Error string }
		check.Equal(t, json.Unmarshal([]byte(got.body), &e), nil, "%s %s: %s", c.method, c.path, got.body)
		check.That(t, e.Code != "", "%s %s: %s", c.method, c.path, got.body)
		check.Equal(t, got.status, c.status, "%s %s", c.method, c.path)
		check.Contains(t, e.Error, c.text, "%s %s", c.method, c.path)
		if got.status == 401 {
			check.Equal(t, got.header.Get("WWW-Authenticate"), `Basic realm="OpenWhisk secure realm"`, "%s %s", c.method, c.path)
		}
		for _, secret := range []string{s.Info().Guest().Key, "k-other"} {
			check.Lacks(t, got.body, secret, "%s %s", c.method, c.path)
		}
	}
	// An empty parameter of a final action may be set.
	d.contains("POST", actions+"final?blocking=true&result=true", `{"open":2}`, 200, "")
}

func TestSharedPackages(t *testing.T) {
	f := &fakeInvoker{run: echo}
	s := begin(t, f, func(o *Options) { o.Namespaces = []Namespace{{Name: "other", UUID: "u-other", Key: "k-other"}} })
	d := at(t, s)
	other := d
	other.auth = "u-other:k-other"
	d.put("packages/shared", `{"publish":true,"parameters":[{"key":"p","value":1}]}`)
	d.put("actions/shared/act", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	other.equals("POST", "/api/v1/namespaces/guest/actions/shared/act?blocking=true&result=true", `{}`, 200, `{"p":1}`)
	m := f.messages()[0]
	check.Equal(t, m.User.Namespace.Name, "other")
	check.Equal(t, m.Action.Path, "guest/shared")
	other.contains("GET", "/api/v1/namespaces/guest/packages", "", 200, `"name":"shared"`)
	other.contains("PUT", "/api/v1/namespaces/guest/actions/shared/act?overwrite=true", `{}`, 403, "")
}

func TestPackageListsItsActionsAndFeeds(t *testing.T) {
	d := at(t, begin(t, &fakeInvoker{}, nil))
	d.put("packages/p", `{"parameters":[{"key":"k","value":1}]}`)
	d.contains("GET", "/api/v1/namespaces/_/packages/p", "", 200, `{"actions":[],"annotations":[],"binding":{},"feeds":[],"name":"p"`)
	d.put("actions/p/act", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	d.put("actions/p/feed", `{"exec":{"kind":"nodejs:20","code":"x"},"annotations":[{"key":"feed","value":true}]}`)
	own := `{"key":"provide-api-key","value":false},{"key":"exec","value":"nodejs:20"}]`
	got := d.do("GET", "/api/v1/namespaces/_/packages/p", "")
	before, updated, _ := strings.Cut(got.body, `"updated":`)
	_, version, _ := strings.Cut(updated, ",")
	check.Equal(t, before+version, `{"actions":[{"annotations":[`+own+`,"name":"act","version":"0.0.1"}],"annotations":[],"binding":{},`+
		`"feeds":[{"annotations":[{"key":"feed","value":true},`+own+`,"name":"feed","version":"0.0.1"}],`+
		`"name":"p","namespace":"guest","parameters":[{"key":"k","value":1}],"publish":false,"version":"0.0.1"}`)
}

func TestLists(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo}, nil)
	d := at(t, s)
	for _, name := range []string{"a", "b", "c"} {
		d.put("actions/"+name, `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	}
	names := func(path string) string {
		var list []struct{ Name string }
		got := d.do("GET", path, "")
		check.NoError(t, json.Unmarshal([]byte(got.body), &list), "%s: %s", path, got.body)
		all := ""
		for _, i := range list {
			all += i.Name
		}
		return all
	}
	for path, want := range map[string]string{
		actions: "cba", actions + "?limit=2": "cb", actions + "?skip=1": "ba", actions + "?limit=0": "cba",
	} {
		check.Equal(t, names(path), want, "%s", path)
	}
	d.equals("GET", actions+"?count=true", "", 200, `{"actions":3}`)
	d.do("POST", actions+"a?blocking=true", `{}`)
	d.do("POST", actions+"b?blocking=true", `{}`)
	d.equals("GET", "/api/v1/namespaces/_/activations?count=true", "", 200, `{"activations":2}`)
	d.equals("GET", "/api/v1/namespaces/_/activations?count=true&since=99999999999999", "", 200, `{"activations":0}`)
	check.Equal(t, names("/api/v1/namespaces/_/activations?name=b"), "b")
	check.Equal(t, names("/api/v1/namespaces/_/activations?docs=true&upto=1"), "")
}

func TestNothingIsServedWithoutAnInvoker(t *testing.T) {
	ctx := t.Context()
	s, err := Start(ctx, Options{Data: t.TempDir(), Runtime: "process"})
	check.NoError(t, err)
	defer stop(t, s)
	d := at(t, s)
	d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	d.put("actions/s", `{"exec":{"kind":"sequence","components":["/_/a"]}}`)
	for _, name := range []string{"a", "s"} {
		d.contains("POST", actions+name+"?blocking=true", `{}`, 503, "No invokers available")
	}
	d.contains("GET", "/invokers/ready", "", 500, "")
}

func TestBlockingCallThatTakesTooLong(t *testing.T) {
	release := make(chan struct{})
	s := begin(t, &fakeInvoker{run: func(*activation.Message) activation.Response {
		<-release
		return activation.Response{Result: json.RawMessage(`{}`)}
	}}, nil)
	d := at(t, s)
	d.put("actions/slow", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	d.put("actions/seq", `{"exec":{"kind":"sequence","components":["/_/slow"]}}`)
	for _, name := range []string{"slow", "seq"} {
		got := d.do("POST", actions+name+"?blocking=true&timeout=50", `{}`)
		check.Equal(t, got.status, 202, "%s", name)
		check.Contains(t, got.body, "activationId", "%s", name)
	}
	close(release)
}

func TestLargeCodeIsAttachedAndComesBack(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo}, nil)
	d := at(t, s)
	source := strings.Repeat("// a long function <&>\n", 2000)
	body, _ := json.Marshal(map[string]any{"exec": map[string]string{"kind": "nodejs:20", "code": source}})
	d.put("actions/long", string(body))
	var a struct {
		Exec    struct{ Code string }
		Version string
	}
	read := func() {
		t.Helper()
		check.NoError(t, json.Unmarshal([]byte(d.do("GET", actions+"long", "").body), &a))
		check.That(check.Must(t), a.Exec.Code == source, "%d bytes of code came back as %d", len(source), len(a.Exec.Code))
	}
	read()
	d.put("actions/long?overwrite=true", `{"publish":false}`) // must keep the attachment
	read()
	check.Equal(t, a.Version, "0.0.2")
	zip, _ := json.Marshal(map[string]any{"exec": map[string]any{"kind": "nodejs:20", "code": "UEsDBBQAAAAAAA=="}})
	d.put("actions/zip", string(zip))
	d.contains("GET", actions+"zip", "", 200, `"code":"UEsDBBQAAAAAAA==","binary":true`)
}

func TestDeletedAndMadeAgain(t *testing.T) {
	f := &fakeInvoker{run: echo}
	s := begin(t, f, nil)
	d := at(t, s)
	for range 2 {
		d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
		d.do("POST", actions+"a?blocking=true", `{}`)
		d.contains("DELETE", actions+"a", "", 200, `"code":"x"`)
	}
	m := f.messages()
	check.That(t, m[0].Revision != m[1].Revision, "both had the revision %s", m[0].Revision)
}
