package activation

import "encoding/json"

// Status codes of a response.
const (
	StatusSuccess          = 0
	StatusApplicationError = 1 // the action answered with an error of its own
	StatusDeveloperError   = 2 // the action broke: crash, timeout, bad answer
	StatusWhiskError       = 3 // the system broke
)

// Response is the outcome of an activation.
type Response struct {
	StatusCode int
	Result     json.RawMessage // nil when there is none
	Size       *int            // UTF-16 length of the action's answer, nil without one
}

// ErrorResponse makes the response of a failure with a text.
func ErrorResponse(status int, text string) Response {
	return ErrorValue(status, AppendString(make([]byte, 0, len(text)+2), text))
}

// ErrorValue makes the response of a failure whose error is a JSON value.
func ErrorValue(status int, value json.RawMessage) Response {
	o := newObject(make([]byte, 0, len(value)+16))
	o.raw("error", value)
	return Response{StatusCode: status, Result: o.end()}
}

// WithSize returns the response with the size of the answer it came from.
func (r Response) WithSize(n int) Response {
	r.Size = &n
	return r
}

// Status is OpenWhisk's word for how the activation ended.
func (r Response) Status() string {
	return [...]string{"success", "application error", "action developer error", "whisk internal error"}[r.StatusCode]
}

// SystemError reports whether the invoker failed, and not the action.
func (r Response) SystemError() bool { return r.StatusCode == StatusWhiskError }

func (r Response) append(dst []byte) []byte {
	o := newObject(dst)
	if r.Result != nil {
		o.raw("result", r.Result)
	}
	if r.Size != nil {
		o.int("size", int64(*r.Size))
	}
	o.int("statusCode", int64(r.StatusCode))
	return o.end()
}

func (p *parser) response() Response {
	var r Response
	p.fields(
		required("statusCode", func() { r.StatusCode = int(p.integer()) }),
		optional("result", func() { r.Result = p.raw() }),
		optional("size", func() { r.Size = new(int(p.integer())) }),
	)
	if p.err == nil && (r.StatusCode < StatusSuccess || r.StatusCode > StatusWhiskError) {
		p.failf("want a status code from 0 to 3")
	}
	return r
}
