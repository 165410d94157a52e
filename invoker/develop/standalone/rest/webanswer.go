package rest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// webAnswer makes the HTTP answer out of a web action's result, in the shape
// that the name's extension asked for.
func (r *request) webAnswer(shape string, record *activation.Record) error {
	if record == nil {
		return entity.Refuse(http.StatusAccepted, "Response not yet ready.")
	}
	result := record.Response.Result
	switch record.Response.StatusCode {
	case activation.StatusSuccess:
	case activation.StatusApplicationError:
		// The answer is made from the value of "error".
		var fields map[string]json.RawMessage
		if json.Unmarshal(result, &fields) != nil || fields["error"] == nil {
			return entity.Refuse(http.StatusNotFound, "Response does not include requested property.")
		}
		result = fields["error"]
	default:
		return entity.Bad("There was an error processing your request.")
	}
	switch shape {
	case "json":
		return r.webJSON(result)
	case "html":
		return r.webText(result, "html", "text/html", "text/html; charset=UTF-8")
	case "svg":
		return r.webText(result, "svg", "image/svg+xml", "image/svg+xml")
	case "text":
		return r.webPlain(result)
	}
	return r.webHTTP(result)
}

func (r *request) webJSON(result json.RawMessage) error {
	if len(result) == 0 || result[0] != '{' && result[0] != '[' {
		return entity.Bad("Response is not valid 'application/json'.")
	}
	return r.send(http.StatusOK, "application/json", result)
}

// bodyOf returns the body in a result: the member "body", or else the member with the
// name of the shape. A result that is not an object is the body itself.
func bodyOf(result json.RawMessage, name string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(result, &fields) != nil {
		return result
	}
	if body, ok := fields["body"]; ok {
		return body
	}
	return fields[name]
}

func (r *request) webText(result json.RawMessage, name, media, contentType string) error {
	var text string
	body := bodyOf(result, name)
	if body == nil || json.Unmarshal(body, &text) != nil {
		return entity.Bad("Response is not valid '%s'.", media)
	}
	return r.send(http.StatusOK, contentType, []byte(text))
}

func (r *request) webPlain(result json.RawMessage) error {
	body := bodyOf(result, "text")
	if body == nil {
		return entity.Refuse(http.StatusNotFound, "Response does not include requested property.")
	}
	var text string
	if json.Unmarshal(body, &text) == nil && body[0] == '"' {
		return r.text(http.StatusOK, text)
	}
	if body[0] == '{' || body[0] == '[' {
		var pretty bytes.Buffer
		if json.Indent(&pretty, body, "", "  ") == nil {
			return r.text(http.StatusOK, pretty.String())
		}
	}
	return r.text(http.StatusOK, string(body))
}

// webHTTP lets the action set everything: status, headers and body.
func (r *request) webHTTP(result json.RawMessage) error {
	invalid := entity.Bad("Response is not valid 'message/http'.")
	var answer struct {
		StatusCode json.RawMessage            `json:"statusCode"`
		Headers    map[string]json.RawMessage `json:"headers"`
		Body       json.RawMessage            `json:"body"`
	}
	if len(result) == 0 || result[0] != '{' || json.Unmarshal(result, &answer) != nil {
		return invalid
	}
	status, ok := statusOf(answer.StatusCode)
	if !ok {
		return invalid
	}
	headers := http.Header{}
	for name, value := range answer.Headers {
		values, ok := headerValues(value)
		if !ok || strings.ContainsAny(name, " \r\n:") || name == "" {
			return invalid
		}
		for _, v := range values {
			headers.Add(name, v)
		}
	}
	return r.webBody(status, headers, answer.Body)
}

// statusOf reads a status as number or text; 0 means that none is given.
func statusOf(v json.RawMessage) (int, bool) {
	if v == nil {
		return 0, true
	}
	n, err := strconv.Atoi(strings.Trim(string(v), `"`))
	return n, err == nil && n >= 200 && n <= 599
}

func headerValues(v json.RawMessage) ([]string, bool) {
	var text string
	var several []json.RawMessage
	switch {
	case json.Unmarshal(v, &text) == nil:
		return []string{text}, !strings.ContainsAny(text, "\r\n")
	case v[0] == '{':
		return nil, false
	case json.Unmarshal(v, &several) == nil:
		var all []string
		for _, one := range several {
			values, ok := headerValues(one)
			if !ok {
				return nil, false
			}
			all = append(all, values...)
		}
		return all, true
	}
	return []string{string(v)}, true
}

// webBody answers with a body whose type is that of the header, else that of its form.
func (r *request) webBody(status int, headers http.Header, body json.RawMessage) error {
	mismatch := entity.Bad("Response type in header did not match generated content type.")
	contentType := headers.Get("Content-Type")
	media, _, err := mime.ParseMediaType(cmp.Or(contentType, "x/none"))
	if err != nil {
		return entity.Bad("Response did not specify a known content-type.")
	}
	headers.Del("Content-Type") // it and the length are set by send
	headers.Del("Content-Length")
	var text string
	isText := len(body) > 0 && body[0] == '"' && json.Unmarshal(body, &text) == nil
	content := []byte(text)
	switch {
	case len(body) == 0, string(body) == "null", isText && text == "":
		maps.Copy(r.w.Header(), headers)
		return r.empty(cmp.Or(status, http.StatusNoContent))
	case !isText && contentType != "" && !isJSON(media):
		return mismatch
	case !isText:
		content, contentType = body, cmp.Or(contentType, "application/json")
	case binary(media) || isJSON(media) && len(text)%4 == 0: // another length cannot be base64
		decoded, err := base64.StdEncoding.DecodeString(text)
		switch {
		case err == nil:
			content = decoded
		case !isJSON(media):
			return mismatch
		}
	case contentType == "":
		contentType = "text/html; charset=UTF-8"
	case strings.HasPrefix(media, "text/") && !strings.Contains(contentType, "charset"):
		contentType += "; charset=UTF-8"
	}
	maps.Copy(r.w.Header(), headers)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		return r.empty(http.StatusNoContent)
	}
	return r.send(cmp.Or(status, http.StatusOK), contentType, content)
}
