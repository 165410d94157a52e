package standalone

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/httpserver"
)

// web answers with the argument "answer", or with all arguments.
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
	check.Equal(t, s.api.ReadTimeout, httpserver.RequestTime)
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
	check.NoError(t, json.Unmarshal([]byte(got.body), &args), "%s", got.body)
	headers, _ := args["__ow_headers"].(map[string]any)
	check.Equal(t, args["a"], "1")
	check.Equal(t, args["b"], "two")
	check.Equal(t, args["__ow_method"], "get")
	check.Equal(t, args["__ow_path"], "")
	check.Equal(t, headers["user-agent"], "test")
	check.That(t, headers["host"] != nil, "%v", headers)
	check.Equal(t, got.header.Get("Content-Type"), "application/json")
	check.Equal(t, got.header.Get("Access-Control-Allow-Methods"), "OPTIONS, GET, DELETE, POST, PUT, HEAD, PATCH")
	check.Equal(t, len(got.header.Get("x-openwhisk-activation-id")), 32)
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
		check.Equal(t, got.status, c.status, "%s of %s", c.ext, c.result)
		check.Equal(t, got.header.Get("Content-Type"), c.contentType, "%s of %s", c.ext, c.result)
		check.Contains(t, got.body, c.body, "%s of %s", c.ext, c.result)
	}
	got = shaped("", `{"statusCode":201,"headers":{"X-Many":["a","b"]},"body":"x"}`)
	check.Equal(t, len(got.header.Values("X-Many")), 2)
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
		{"GET", "/api/v1/web/guest/default/web?__ow_body=x", "", nil, 400, "not allowed"},
		{"POST", "/api/v1/web/guest/default/web", `{"__ow_body":"x"}`, nil, 400, "not allowed"},
		{"GET", "/api/v1/web/guest/default/raw?__ow_body=x", "", nil, 200, `"__ow_body":""`},
		{"GET", "/api/v1/web/guest/default/final?set=2", "", nil, 400, "not allowed"},
		{"GET", "/api/v1/web/guest/default/guarded", "", nil, 401, "Authentication"},
		{"GET", "/api/v1/web/guest/default/guarded", "", []string{"X-Require-Whisk-Auth", "open sesame"}, 200, "__ow_method"},
		{"POST", "/api/v1/web/guest/default/web", "a=1&b=2", []string{"Content-Type", "application/x-www-form-urlencoded"}, 200, `"b":"2"`},
		{"POST", "/api/v1/web/guest/default/web", "hi", []string{"Content-Type", "text/plain"}, 200, `"__ow_body":"hi"`},
		{"POST", "/api/v1/web/guest/default/web", "hi", []string{"Content-Type", "application/octet-stream"}, 200, `"__ow_body":"aGk="`},
		{"POST", "/api/v1/web/guest/default/web", `{"broken`, nil, 400, "malformed"},
		{"POST", "/api/v1/web/guest/default/web", strings.Repeat("x", 1<<20+1), nil, 413, "more than 1048576 bytes"},
		{"POST", "/api/v1/web/guest/default/raw?q=1", `{"k":1}`, nil, 200, `"__ow_query":"q=1"`},
		{"POST", "/api/v1/web/guest/default/raw?q=1", `{"k":1}`, nil, 200, `"__ow_body":"eyJrIjoxfQ=="`},
		{"OPTIONS", "/api/v1/web/guest/default/web", "", []string{"Access-Control-Request-Headers", "X-Mine"}, 200, ""},
	} {
		got := w.do(c.method, c.path, c.body, c.headers...)
		check.Equal(t, got.status, c.status, "%s %s %.100s: %s", c.method, c.path, c.body, got.body)
		check.Contains(t, got.body, c.want, "%s %s %.100s", c.method, c.path, c.body)
	}
}
