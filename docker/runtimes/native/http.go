package native

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxBody limits a request: code has at most 48 MiB before base64 and JSON.
const maxBody = 256 << 20

// Texts of OpenWhisk's docker skeleton, on which clients may depend.
const (
	textNoImage  = "The action is a Docker image, which a plain process cannot run (gpuwhisk standalone --runtime docker can)."
	textTwice    = "Cannot initialize the action more than once."
	textNoBinary = "The action failed to generate or locate a binary. See logs for details."
	textNoAction = "The action failed to locate a binary. See logs for details."
	textNoArgs   = "The action did not receive a dictionary or array as an argument."
	textNoResult = "The action did not return a dictionary or array."
)

// initRequest is the value of /init.
type initRequest struct {
	Binary bool
	Code   *string
	Env    map[string]json.RawMessage
}

// runRequest is the content of /run.
type runRequest struct {
	value json.RawMessage // an object or an array
	env   []string        // variables of this activation
	whole []byte          // the unchanged body
}

// ServeHTTP answers /init and /run.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.busy.Add(1)
	defer p.busy.Done()
	serve, found := map[string]func([]byte, *http.Request) (int, []byte){
		"/init": p.serveInit, "/run": p.serveRun,
	}[r.URL.Path]
	switch {
	case !found:
		answer(w, http.StatusNotFound, failure("There is nothing at this path."))
		return
	case r.Method != http.MethodPost:
		answer(w, http.StatusMethodNotAllowed, failure("Only POST is answered here."))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		answer(w, http.StatusRequestEntityTooLarge, failure("The request is too large."))
		return
	}
	if err != nil {
		return // the invoker has closed the connection
	}
	status, text := serve(body, r)
	answer(w, status, text)
}

func answer(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	if !strings.HasPrefix(string(body[:1]), "{") && !strings.HasPrefix(string(body[:1]), "[") {
		h["Content-Type"] = []string{"text/html; charset=utf-8"}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["Connection"] = []string{"keep-alive"} // the server says close where it closes
	h["Keep-Alive"] = []string{"timeout=60"} // it has no limit for idle connections
	w.WriteHeader(status)
	_, _ = w.Write(body) // on an error the invoker has closed the connection
}

func failure(text string) []byte {
	body, _ := json.Marshal(map[string]string{"error": text})
	return append(body, '\n')
}

func (p *proxy) serveInit(body []byte, _ *http.Request) (int, []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.action != nil {
		p.log(p.cfg.Stderr, textTwice)
		return http.StatusForbidden, failure(textTwice)
	}
	var message struct{ Value initRequest }
	if err := json.Unmarshal(body, &message); err != nil {
		return http.StatusBadRequest, failure("The request is no JSON of the expected form.")
	}
	req := message.Value
	if err := p.unpack(req); err != nil {
		p.log(p.cfg.Stdout, err.Error())
		p.writeSentinels()
		return http.StatusBadGateway, failure(textNoBinary)
	}
	env := slices.Concat(p.cfg.Env, environ(req.Env))
	if p.cfg.Loop || lookup(env, envLoop) == "true" {
		return p.initLoop(env)
	}
	empty := req.Code == nil && !executable(p.exec())
	if empty && p.cfg.NoImage {
		p.writeSentinels()
		return http.StatusBadGateway, failure(textNoImage)
	}
	p.action = &skeleton{proxy: p, path: p.exec(), env: env, empty: empty}
	return http.StatusOK, []byte("OK")
}

// environ converts the env of /init to variables: strings unchanged, other values as
// JSON.
func environ(env map[string]json.RawMessage) []string {
	var out []string
	for name, value := range env {
		text := string(value)
		if s := ""; json.Unmarshal(value, &s) == nil {
			text = s
		}
		if name != "" && !strings.ContainsAny(name, "=\x00") && !strings.Contains(text, "\x00") {
			out = append(out, name+"="+text)
		}
	}
	return out
}

// lookup returns the value of a variable. If it occurs several times, the last one
// counts, as for programs.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(env[i], "="); k == name {
			return v
		}
	}
	return ""
}

func (p *proxy) serveRun(body []byte, r *http.Request) (int, []byte) {
	defer p.writeSentinels()
	p.mu.Lock()
	a := p.action
	p.mu.Unlock()
	if a == nil {
		return http.StatusBadGateway, failure(textNoAction)
	}
	req, ok := parseRun(body)
	if !ok {
		return http.StatusNotFound, failure(textNoArgs)
	}
	return a.run(r.Context(), req)
}

// parseRun parses the body of /run. All members except the parameters become variables
// of the action.
func parseRun(body []byte) (runRequest, bool) {
	req := runRequest{value: json.RawMessage("{}"), whole: body}
	var message map[string]json.RawMessage
	if json.Unmarshal(body, &message) != nil {
		return req, false
	}
	for key, value := range message {
		if key == "value" {
			req.value = value
			continue
		}
		var text string
		if json.Unmarshal(value, &text) == nil && string(value) != "null" {
			req.env = append(req.env, environ(map[string]json.RawMessage{
				"__OW_" + strings.ToUpper(key): value,
			})...)
		}
	}
	return req, req.value[0] == '{' || req.value[0] == '['
}
