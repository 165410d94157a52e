package rest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// webCall is a request to a web action.
type webCall struct {
	owner  *activation.Identity
	action *couchdb.Resolved
	shape  string // the form of the answer: http, json, html, svg, text
	rest   string // the path behind the action's name
}

// web serves .../web/NAMESPACE/PACKAGE/ACTION[.EXTENSION][/REST]: an action
// that all may call, on its owner's behalf, if it is exported.
func (r *request) web() error {
	call, err := r.webAction()
	switch {
	case couchdb.Absent(err):
		return missing() // whatever is wrong with the name
	case err != nil:
		return err
	}
	if !call.action.Annotations.IsTrue("web-custom-options") {
		r.allowWeb()
		if r.Method == http.MethodOptions {
			return r.empty(http.StatusOK)
		}
	}
	if r.Method != http.MethodOptions {
		if err := r.webAuthorized(call.action.Annotations); err != nil {
			return err
		}
	}
	args, err := r.webArguments(call)
	if err != nil {
		return err
	}
	out, err := r.Controller.Invoke(r.Context(), controller.Call{
		User: *call.owner, TransID: r.transID, Action: call.action, Payload: args, Wait: controller.MaxWait,
		Trace: traceContext(r.Header),
	})
	if err != nil {
		return err
	}
	r.w.Header().Set(activationHeader, string(out.ID))
	return r.webAnswer(call.shape, out.Record)
}

func (r *request) allowWeb() {
	h := r.w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Headers", cmp.Or(r.Header.Get("Access-Control-Request-Headers"), allowedHeaders))
	h.Set("Access-Control-Allow-Methods", webMethods)
}

// webAction finds the action that the path names.
func (r *request) webAction() (*webCall, error) {
	path, rest := segments(r.URL)
	if len(path) < 3 {
		return nil, missing()
	}
	if path[0] == controller.SystemNamespace && path[1] == "apimgmt" { // of an API gateway, asked by wsk api
		return nil, entity.Refuse(http.StatusNotImplemented, "API gateway routes (wsk api) are not supported here, by gpuwhisk standalone; "+
			"a web action has an address of its own (wsk action update NAME --web true, wsk action get NAME --url).")
	}
	name, shape := cutShape(path[2])
	for _, part := range []string{path[0], path[1], name} {
		if !activation.ValidName(part) {
			return nil, missing()
		}
	}
	ref := entity.Ref{Path: path[0], Name: name}
	if path[1] != reservedPackage {
		ref.Path += "/" + path[1]
	}
	owner, err := r.identity(r.Context(), path[0])
	if err != nil {
		return nil, err
	}
	a, err := r.DB.Resolve(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	if !a.Annotations.IsTrue("web-export") {
		return nil, missing()
	}
	return &webCall{owner, a, shape, rest}, nil
}

// segments splits the path after /api/v1/web. names holds the first three segments, each
// unescaped separately, because names may contain escaped slashes and blanks. rest is
// the remaining path, still escaped.
func segments(u *url.URL) (names []string, rest string) {
	behind := strings.TrimPrefix(strings.TrimPrefix(u.EscapedPath(), webPath), "/")
	names = strings.SplitN(behind, "/", 4)
	if len(names) > 3 {
		names, rest = names[:3], "/"+names[3]
	}
	for i := range names {
		names[i], _ = url.PathUnescape(names[i]) // EscapedPath is escaped well
	}
	return names, rest
}

// cutShape cuts a known extension off a name.
func cutShape(name string) (base, shape string) {
	for _, shape := range []string{"http", "json", "html", "svg", "text"} {
		if base, ok := strings.CutSuffix(name, "."+shape); ok {
			return base, shape
		}
	}
	return name, "http"
}

// webAuthorized checks the requirement of the annotation require-whisk-auth: a secret in
// a header, or, if the annotation is true, a user of the installation.
func (r *request) webAuthorized(a entity.Parameters) error {
	required, ok := a.Get("require-whisk-auth")
	if !ok || string(required) == "false" || string(required) == "null" {
		return nil
	}
	if string(required) == "true" {
		return r.authenticate()
	}
	secret := string(required)
	if text, isText := a.Text("require-whisk-auth"); isText {
		secret = text
	}
	if r.Header.Get("X-Require-Whisk-Auth") != secret {
		return entity.Refuse(http.StatusUnauthorized, "Authentication is possible but has failed or not yet been provided.")
	}
	return nil
}

// webArguments turns the request into the arguments of the action: the query, the body,
// and the description of the request. Later arguments replace earlier ones.
func (r *request) webArguments(call *webCall) (json.RawMessage, error) {
	r.Body = http.MaxBytesReader(r.w, r.Body, maxPayload) // anybody may send a request, so its size is limited
	body := r.body()
	if r.err != nil {
		return nil, r.err
	}
	args := map[string]json.RawMessage{}
	if call.action.Annotations.IsTrue("raw-http") {
		args["__ow_query"] = jsonText(r.URL.RawQuery)
		args["__ow_body"] = jsonText(rawBody(r.Header.Get("Content-Type"), body))
	} else {
		addLast(args, r.query)
		opaque, err := addBody(args, r.Header.Get("Content-Type"), body)
		if err == nil {
			err = checkNames(args, call.action, reservedNames...)
		}
		if err != nil {
			return nil, err
		}
		if opaque != nil {
			args["__ow_body"] = opaque
		}
	}
	args["__ow_method"] = jsonText(strings.ToLower(r.Method))
	args["__ow_headers"] = r.headerObject()
	args["__ow_path"] = jsonText(call.rest)
	if r.user != nil {
		args["__ow_user"] = jsonText(r.user.Namespace.Name)
	}
	return entity.Marshal(args)
}

// reservedNames are the arguments that describe the request. Callers may not set them.
var reservedNames = []string{"__ow_method", "__ow_headers", "__ow_path", "__ow_user", "__ow_query", "__ow_body"}

func jsonText(s string) json.RawMessage { return activation.AppendString(nil, s) }

// addLast adds the last value of each name.
func addLast(args map[string]json.RawMessage, from url.Values) {
	for name, values := range from {
		args[name] = jsonText(values[len(values)-1])
	}
}

// addBody adds the arguments in a body. A body without named arguments is returned as
// opaque.
func addBody(args map[string]json.RawMessage, contentType string, body []byte) (opaque json.RawMessage, err error) {
	if len(body) == 0 {
		return nil, nil
	}
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case isJSON(media):
		value, err := activation.Canonical(body)
		if err != nil {
			return nil, entity.Malformed("%v", err)
		}
		if value[0] != '{' {
			return value, nil
		}
		return nil, json.Unmarshal(value, &args)
	case media == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, entity.Malformed("%v", err)
		}
		addLast(args, form)
		return nil, nil
	}
	return jsonText(rawBody(contentType, body)), nil
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// rawBody is a body as text, in base64 if its type is not one of text. JSON
// counts as binary here, for the sake of old actions (WebActions.scala).
func rawBody(contentType string, body []byte) string {
	media, _, _ := mime.ParseMediaType(contentType)
	if len(body) > 0 && (media == "application/json" || binary(media)) {
		return base64.StdEncoding.EncodeToString(body)
	}
	return string(body)
}

func binary(media string) bool {
	kind, sub, _ := strings.Cut(media, "/")
	switch kind {
	case "image":
		return sub != "svg+xml"
	case "audio", "video", "font":
		return true
	case "application":
		return !strings.HasSuffix(sub, "json") && !strings.HasSuffix(sub, "xml") &&
			sub != "javascript" && sub != "x-www-form-urlencoded" && sub != "graphql"
	}
	return false
}
