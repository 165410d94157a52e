package standalone

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// door sends requests as they stand.
type door struct {
	t    *testing.T
	host string
	auth string // user:password, empty for none
}

func at(t *testing.T, s *Standalone) door {
	return door{t, s.Info().APIHost, Guest().AuthKey()}
}

func (d door) anonymous() door { d.auth = ""; return d }

type answer struct {
	status int
	header http.Header
	body   string
}

func (d door) do(method, path, body string, headers ...string) answer {
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
	res, err := http.DefaultTransport.RoundTrip(req) // redirects are answers too
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

func (d door) put(path, body string) {
	d.t.Helper()
	if a := d.do("PUT", "/api/v1/namespaces/_/"+path, body); a.status != 200 {
		d.t.Fatalf("put %s: %d %s", path, a.status, a.body)
	}
}

const actions = "/api/v1/namespaces/_/actions/"

func TestAnswersHaveTheShapeOfTheController(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo}, nil)
	d := at(t, s)
	d.put("actions/hello", `{"exec":{"kind":"nodejs:20","code":"x"}}`)

	got := d.do("POST", actions+"hello?blocking=true", `{"name":"World"}`)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(got.body), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"activationId", "annotations", "duration", "end", "logs", "name", "namespace", "publish", "response", "start", "subject", "version"} {
		if fields[name] == nil {
			t.Errorf("an activation has no %s: %s", name, got.body)
		}
	}
	if string(fields["response"]) != `{"result":{"name":"World"},"size":16,"status":"success","success":true}` || string(fields["logs"]) != "[]" {
		t.Errorf("response %s, logs %s", fields["response"], fields["logs"])
	}
	id := strings.Trim(string(fields["activationId"]), `"`)
	if got.header.Get("x-openwhisk-activation-id") != id || got.header.Get("X-Request-ID") == "" ||
		got.header.Get("Access-Control-Allow-Origin") != "*" || got.header.Get("Access-Control-Allow-Methods") != "GET, DELETE, POST, PUT, HEAD" {
		t.Errorf("headers %v", got.header)
	}
	if got := d.do("POST", actions+"hello?blocking=false", `{}`); got.status != 202 || len(got.body) != len(`{"activationId":"`)+32+len(`"}`) {
		t.Errorf("not blocking: %d %s", got.status, got.body)
	}
	if got := d.do("POST", actions+"hello?blocking=true&result=true", `{"fail":{"m":1}}`); got.status != 502 || got.body != `{"error":{"m":1}}` {
		t.Errorf("application error: %d %s", got.status, got.body)
	}
	got = d.do("GET", actions+"none", "", "X-Request-ID", "mine")
	if got.status != 404 || got.body != `{"code":"mine","error":"The requested resource does not exist."}` || got.header.Get("X-Request-ID") != "mine" {
		t.Errorf("error: %d %s", got.status, got.body)
	}
	if got := d.do("GET", actions+"none", "", "X-Request-ID", "sid_invokerHealth"); got.header.Get("X-Request-ID") == "sid_invokerHealth" {
		t.Error("a caller took a name of the system")
	}
	if got := d.do("GET", "/api/v1/namespaces/_/limits", ""); got.body != `{"concurrentInvocations":10000,"firesPerMinute":1000000,"invocationsPerMinute":1000000,"maxActionConcurrency":1,"maxActionInstances":10000,"maxActionLogs":10,"maxActionMemory":512,"maxActionTimeout":300000,"maxParameterSize":"1048576 B","minActionConcurrency":1,"minActionLogs":0,"minActionMemory":128,"minActionTimeout":100}` {
		t.Errorf("limits %s", got.body)
	}
	if got := d.anonymous().do("GET", "/ping", ""); got.body != "pong" {
		t.Errorf("ping %s", got.body)
	}
	if got := d.anonymous().do("GET", "/invokers", ""); got.body != `{"invoker0/standalone":"up"}` {
		t.Errorf("invokers %s", got.body)
	}
	if got := d.anonymous().do("GET", "/invokers/ready", ""); got.status != 200 || got.body != `{"healthy":"1/1"}` {
		t.Errorf("ready %s", got.body)
	}
	if got := d.anonymous().do("OPTIONS", actions+"hello", ""); got.status != 200 {
		t.Errorf("preflight: %d", got.status)
	}
	root := d.anonymous().do("GET", "/", "")
	if !strings.Contains(root.body, `"runtimes":{"native":[`) || !strings.Contains(root.body, `"sequence_length":50`) {
		t.Errorf("root %s", root.body)
	}
}

func TestRefusals(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo}, func(o *Options) {
		o.Namespaces = []Namespace{{"other", "u-other", "k-other"}}
	})
	d := at(t, s)
	d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	d.put("packages/p", `{}`)
	d.put("triggers/t", `{}`)
	d.put("actions/final", `{"exec":{"kind":"nodejs:20","code":"x"},"annotations":[{"key":"final","value":true}],"parameters":[{"key":"set","value":1},{"key":"open","value":""}]}`)
	wrong, nobody, other := d, d.anonymous(), d
	wrong.auth = Guest().UUID + ":wrong"
	other.auth = "u-other:k-other"
	big := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	cases := []struct {
		who          door
		method, path string
		body         string
		status       int
		text         string
	}{
		{nobody, "GET", actions, "", 401, "The resource requires authentication, which was not supplied with the request"},
		{wrong, "GET", actions, "", 401, "The supplied authentication is invalid"},
		{d, "GET", "/api/v1/namespaces/other/actions", "", 403, "not authorized"},
		{d, "POST", "/api/v1/namespaces/other/actions/x", "{}", 403, "not authorized"},
		{other, "GET", "/api/v1/namespaces/guest/packages/p", "", 403, "not authorized"},
		{d, "PUT", actions + "a", `{"exec":{"kind":"nodejs:20","code":"y"}}`, 409, "resource already exists"},
		{d, "PUT", actions + "p?overwrite=true", `{"exec":{"kind":"nodejs:20","code":"y"}}`, 409, "Resource by this name exists but is not in this collection."},
		{d, "GET", actions + "t", "", 409, "not in this collection"},
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
		{d, "POST", "/api/v1/namespaces/_/triggers/none", `{}`, 404, "does not exist"},
		{d, "PUT", "/api/v1/namespaces/_/rules/r", `{"trigger":"/_/t"}`, 400, "rule requires a valid trigger and a valid action"},
		{d, "PUT", "/api/v1/namespaces/_/rules/r", `{"trigger":"/_/t","action":"/_/none"}`, 400, "action /guest/none does not exist"},
		{d, "PATCH", actions + "a", "", 405, "not allowed"},
		{d, "GET", "/api/v1/namespaces/_/apis", "", 501, "is not served by gpuwhisk standalone."},
		{d, "GET", "/api/v1/web", "", 404, "does not exist"},
		{d, "GET", "/elsewhere", "", 501, "is not served by gpuwhisk standalone."},
	}
	for _, c := range cases {
		got := c.who.do(c.method, c.path, c.body)
		var e struct{ Code, Error string }
		if err := json.Unmarshal([]byte(got.body), &e); err != nil || e.Code == "" {
			t.Errorf("%s %s: no error of OpenWhisk's shape: %s", c.method, c.path, got.body)
		}
		if got.status != c.status || !strings.Contains(e.Error, c.text) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, got.status, e.Error, c.status, c.text)
		}
		if got.status == 401 && got.header.Get("WWW-Authenticate") != `Basic realm="OpenWhisk secure realm"` {
			t.Errorf("401 without a challenge: %v", got.header)
		}
		for _, secret := range []string{Guest().Key, "k-other"} {
			if strings.Contains(got.body, secret) {
				t.Errorf("%s %s tells a key", c.method, c.path)
			}
		}
	}
	if got := d.do("POST", actions+"final?blocking=true&result=true", `{"open":2}`); got.status != 200 {
		t.Errorf("an empty parameter of a final action may be set: %d %s", got.status, got.body)
	}
}

func TestSharedPackages(t *testing.T) {
	f := &fakeInvoker{run: echo}
	s := begin(t, f, func(o *Options) { o.Namespaces = []Namespace{{"other", "u-other", "k-other"}} })
	d := at(t, s)
	other := d
	other.auth = "u-other:k-other"
	d.put("packages/shared", `{"publish":true,"parameters":[{"key":"p","value":1}]}`)
	d.put("actions/shared/act", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	if got := other.do("POST", "/api/v1/namespaces/guest/actions/shared/act?blocking=true&result=true", `{}`); got.status != 200 || got.body != `{"p":1}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	if m := f.messages()[0]; m.User.Namespace.Name != "other" || m.Action.Path != "guest/shared" {
		t.Errorf("ran as %s: %+v", m.User.Namespace.Name, m.Action)
	}
	if got := other.do("GET", "/api/v1/namespaces/guest/packages", ""); !strings.Contains(got.body, `"name":"shared"`) {
		t.Errorf("shared packages of a stranger: %s", got.body)
	}
	if got := other.do("PUT", "/api/v1/namespaces/guest/actions/shared/act?overwrite=true", `{}`); got.status != 403 {
		t.Errorf("a stranger may write: %d", got.status)
	}
}

func TestLists(t *testing.T) {
	s := begin(t, &fakeInvoker{run: echo}, nil)
	d := at(t, s)
	for _, name := range []string{"a", "b", "c"} {
		d.put("actions/"+name, `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	}
	names := func(path string) string {
		var items []struct{ Name string }
		if got := d.do("GET", path, ""); json.Unmarshal([]byte(got.body), &items) != nil {
			t.Fatalf("%s: %s", path, got.body)
		}
		all := ""
		for _, i := range items {
			all += i.Name
		}
		return all
	}
	for path, want := range map[string]string{
		actions: "cba", actions + "?limit=2": "cb", actions + "?skip=1": "ba", actions + "?limit=0": "cba",
	} {
		if got := names(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := d.do("GET", actions+"?count=true", ""); got.body != `{"actions":3}` {
		t.Errorf("count: %s", got.body)
	}
	d.do("POST", actions+"a?blocking=true", `{}`)
	d.do("POST", actions+"b?blocking=true", `{}`)
	if got := d.do("GET", "/api/v1/namespaces/_/activations?count=true", ""); got.body != `{"activations":2}` {
		t.Errorf("count: %s", got.body)
	}
	if got := d.do("GET", "/api/v1/namespaces/_/activations?count=true&since=99999999999999", ""); got.body != `{"activations":0}` {
		t.Errorf("count of the future: %s", got.body)
	}
	if got := names("/api/v1/namespaces/_/activations?name=b"); got != "b" {
		t.Errorf("by name: %s", got)
	}
	if got := names("/api/v1/namespaces/_/activations?docs=true&upto=1"); got != "" {
		t.Errorf("before the epoch: %s", got)
	}
}

// web makes the answer of a web action what its "answer" argument says.
func web(m *activation.Message) activation.Response {
	var args map[string]json.RawMessage
	_ = json.Unmarshal(m.Content, &args)
	if a, ok := args["answer"]; ok {
		var text string
		if json.Unmarshal(a, &text) == nil {
			a = json.RawMessage(text)
		}
		return activation.Response{Result: a}
	}
	return activation.Response{Result: json.RawMessage(`{"statusCode":200,"headers":{"content-type":"application/json"},"body":` + string(m.Content) + `}`)}
}

func TestWebActions(t *testing.T) {
	s := begin(t, &fakeInvoker{run: web}, nil)
	d := at(t, s)
	d.put("packages/p", `{}`)
	export := `,"annotations":[{"key":"web-export","value":true}`
	exec := `{"exec":{"kind":"nodejs:20","code":"x"}`
	d.put("actions/web", exec+export+`]}`)
	d.put("actions/p/web", exec+export+`]}`)
	d.put("actions/raw", exec+export+`,{"key":"raw-http","value":true}]}`)
	d.put("actions/guarded", exec+export+`,{"key":"require-whisk-auth","value":"open sesame"}]}`)
	d.put("actions/private", exec+`}`)
	d.put("actions/final", exec+export+`,{"key":"final","value":true}],"parameters":[{"key":"set","value":1}]}`)
	w := d.anonymous()

	got := w.do("GET", "/api/v1/web/guest/default/web?a=1&b=two", "", "User-Agent", "test")
	var args map[string]any
	if err := json.Unmarshal([]byte(got.body), &args); err != nil {
		t.Fatal(err, got.body)
	}
	headers, _ := args["__ow_headers"].(map[string]any)
	if args["a"] != "1" || args["b"] != "two" || args["__ow_method"] != "get" || args["__ow_path"] != "" || headers["user-agent"] != "test" || headers["host"] == nil {
		t.Errorf("arguments %s", got.body)
	}
	if got.header.Get("Content-Type") != "application/json" || got.header.Get("Access-Control-Allow-Methods") != "OPTIONS, GET, DELETE, POST, PUT, HEAD, PATCH" ||
		len(got.header.Get("x-openwhisk-activation-id")) != 32 {
		t.Errorf("headers %v", got.header)
	}
	shaped := func(ext, result string) answer {
		t.Helper()
		body, _ := json.Marshal(map[string]string{"answer": result})
		return w.do("POST", "/api/v1/web/guest/default/web"+ext, string(body))
	}
	cases := []struct {
		ext, result string
		status      int
		contentType string
		body        string
	}{
		{".json", `{"a":[1]}`, 200, "application/json", `{"a":[1]}`},
		{".json", `{"statusCode":404,"body":"x"}`, 200, "application/json", `{"statusCode":404,"body":"x"}`},
		{".html", `{"html":"<b>x</b>"}`, 200, "text/html; charset=UTF-8", "<b>x</b>"},
		{".html", `{"html":7}`, 400, "application/json", "Response is not valid 'text/html'."},
		{".svg", `{"body":"<svg/>"}`, 200, "image/svg+xml", "<svg/>"},
		{".text", `{"text":"plain"}`, 200, "text/plain; charset=UTF-8", "plain"},
		{".text", `{"text":7}`, 200, "text/plain; charset=UTF-8", "7"},
		{".text", `{}`, 404, "application/json", "Response does not include requested property."},
		{".http", `{"body":"<i>"}`, 200, "text/html; charset=UTF-8", "<i>"},
		{"", `{"statusCode":"201","headers":{"X-Many":["a","b"],"X-N":7},"body":{"k":1}}`, 201, "application/json", `{"k":1}`},
		{"", `{"headers":{"content-type":"image/png"},"body":"aGk="}`, 200, "image/png", "hi"},
		{"", `{"headers":{"content-type":"image/png"},"body":"not base64"}`, 400, "application/json", "did not match"},
		{"", `{"headers":{"content-type":"text/plain"},"body":{"k":1}}`, 400, "application/json", "did not match"},
		{"", `{"headers":{"location":"/elsewhere"},"statusCode":302}`, 302, "", ""},
		{"", `{}`, 204, "", ""},
		{"", `{"statusCode":99,"body":"x"}`, 400, "application/json", "Response is not valid 'message/http'."},
		{"", `{"headers":7,"body":"x"}`, 400, "application/json", "Response is not valid 'message/http'."},
		{"", `[1]`, 400, "application/json", "Response is not valid 'message/http'."},
	}
	for _, c := range cases {
		got := shaped(c.ext, c.result)
		if got.status != c.status || got.header.Get("Content-Type") != c.contentType || !strings.Contains(got.body, c.body) {
			t.Errorf("%s of %s: %d %q %s, want %d %q %s", c.ext, c.result, got.status, got.header.Get("Content-Type"), got.body, c.status, c.contentType, c.body)
		}
	}
	if got := shaped("", `{"statusCode":201,"headers":{"X-Many":["a","b"]},"body":"x"}`); len(got.header.Values("X-Many")) != 2 {
		t.Errorf("headers %v", got.header)
	}
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		want               string
	}{
		{"GET", "/api/v1/web/guest/p/web.json/some/where?x=y", "", nil, 200, `"__ow_path":"/some/where"`},
		{"GET", "/api/v1/web/guest/default/none", "", nil, 404, "does not exist"},
		{"GET", "/api/v1/web/nobody/default/web", "", nil, 404, "does not exist"},
		{"GET", "/api/v1/web/guest/default/private", "", nil, 404, "does not exist"},
		{"GET", "/api/v1/web/guest/default/web?__ow_method=x", "", nil, 400, "not allowed"},
		{"GET", "/api/v1/web/guest/default/final?set=2", "", nil, 400, "not allowed"},
		{"GET", "/api/v1/web/guest/default/guarded", "", nil, 401, "Authentication"},
		{"GET", "/api/v1/web/guest/default/guarded", "", []string{"X-Require-Whisk-Auth", "open sesame"}, 200, "__ow_method"},
		{"POST", "/api/v1/web/guest/default/web", "a=1&b=2", []string{"Content-Type", "application/x-www-form-urlencoded"}, 200, `"b":"2"`},
		{"POST", "/api/v1/web/guest/default/web", "hi", []string{"Content-Type", "text/plain"}, 200, `"__ow_body":"hi"`},
		{"POST", "/api/v1/web/guest/default/web", "hi", []string{"Content-Type", "application/octet-stream"}, 200, `"__ow_body":"aGk="`},
		{"POST", "/api/v1/web/guest/default/web", `{"broken`, nil, 400, "malformed"},
		{"POST", "/api/v1/web/guest/default/raw?q=1", `{"k":1}`, nil, 200, `"__ow_query":"q=1"`},
		{"POST", "/api/v1/web/guest/default/raw?q=1", `{"k":1}`, nil, 200, `"__ow_body":"eyJrIjoxfQ=="`},
		{"OPTIONS", "/api/v1/web/guest/default/web", "", []string{"Access-Control-Request-Headers", "X-Mine"}, 200, ""},
	} {
		got := w.do(c.method, c.path, c.body, c.headers...)
		if got.status != c.status || !strings.Contains(got.body, c.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, got.status, got.body, c.status, c.want)
		}
	}
}

func TestNothingIsServedWithoutAnInvoker(t *testing.T) {
	ctx := t.Context()
	s, err := Start(ctx, Options{Data: t.TempDir(), Runtime: "process"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	d := at(t, s)
	d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	d.put("actions/s", `{"exec":{"kind":"sequence","components":["/_/a"]}}`)
	for _, name := range []string{"a", "s"} {
		if got := d.do("POST", actions+name+"?blocking=true", `{}`); got.status != 503 || !strings.Contains(got.body, "No invokers available") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := d.do("GET", "/invokers/ready", ""); got.status != 500 {
		t.Errorf("ready without an invoker: %d %s", got.status, got.body)
	}
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
		if got.status != 202 || !strings.Contains(got.body, "activationId") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
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
		if got := d.do("GET", actions+"long", ""); json.Unmarshal([]byte(got.body), &a) != nil || a.Exec.Code != source {
			t.Fatalf("%d bytes of code came back as %d", len(source), len(a.Exec.Code))
		}
	}
	read()
	d.put("actions/long?overwrite=true", `{"publish":false}`) // must not lose the attachment
	read()
	if a.Version != "0.0.2" {
		t.Errorf("version %s", a.Version)
	}
	zip, _ := json.Marshal(map[string]any{"exec": map[string]any{"kind": "nodejs:20", "code": "UEsDBBQAAAAAAA=="}})
	d.put("actions/zip", string(zip))
	if got := d.do("GET", actions+"zip", ""); !strings.Contains(got.body, `"code":"UEsDBBQAAAAAAA==","binary":true`) {
		t.Errorf("binary code: %s", got.body)
	}
}

func TestDeletedAndMadeAgain(t *testing.T) {
	f := &fakeInvoker{run: echo}
	s := begin(t, f, nil)
	d := at(t, s)
	for range 2 {
		d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
		d.do("POST", actions+"a?blocking=true", `{}`)
		if got := d.do("DELETE", actions+"a", ""); got.status != 200 || !strings.Contains(got.body, `"code":"x"`) {
			t.Errorf("delete: %d %s", got.status, got.body)
		}
	}
	if m := f.messages(); m[0].Revision == m[1].Revision {
		t.Errorf("both had the revision %s", m[0].Revision)
	}
}

func FuzzDoor(f *testing.F) {
	s, err := Start(f.Context(), Options{Data: f.TempDir(), Runtime: "process"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Stop(f.Context()) })
	f.Add("PUT", "actions/a?overwrite=true", []byte(`{"exec":{"kind":"nodejs:20","code":"x"}}`))
	f.Add("PUT", "packages/p?overwrite=true", []byte(`{"binding":{"namespace":"_","name":"q"}}`))
	f.Add("PUT", "triggers/t?overwrite=true", []byte(`{"parameters":[{"key":"k","value":[]}]}`))
	f.Add("PUT", "rules/r?overwrite=true", []byte(`{"trigger":"/_/t","action":"/_/a"}`))
	f.Add("POST", "rules/r", []byte(`{"status":"inactive"}`))
	f.Add("POST", "actions/a?blocking=true&result=true&timeout=1", []byte(`{"a":[1e400]}`))
	f.Add("GET", "activations?limit=1&skip=2&since=3&upto=4&name=a/b&docs=true", []byte(``))
	f.Add("DELETE", "actions/p/a", []byte(``))
	guest := Guest()
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		req, err := http.NewRequest(method, s.Info().APIHost+"/api/v1/namespaces/_/"+path, bytes.NewReader(body))
		if err != nil {
			return
		}
		req.SetBasicAuth(guest.UUID, guest.Key)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return // not HTTP at all
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == 500 {
			t.Fatalf("%s %s %q: %s", method, path, body, text)
		}
		if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") && len(text) > 0 && !json.Valid(text) {
			t.Fatalf("%s %s %q: no JSON: %q", method, path, body, text)
		}
	})
}
