package proxy

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Texts of failures in OpenWhisk's words (ErrorResponse.scala). They must not change, because
// clients and dashboards search for these texts.
const (
	textInitTimeout = "The action exceeded its time limits of %d milliseconds during initialization."
	textRunTimeout  = "The action exceeded its time limits of %d milliseconds."
	textTruncated   = "The action produced a response that exceeded the allowed length: " +
		"%d > %d bytes. The truncated response was: %s"
	textInitFailed = "The action failed during initialization"
	textNotJSON    = "The action did not produce a valid JSON or JSON Array response"
	textMemory     = "The action exhausted its memory and was aborted."

	// TextNotInitialized is the answer if /init broke off or the proxy was unhealthy.
	TextNotInitialized = "The action did not initialize and exited unexpectedly."
	// TextAbnormal is the answer if the action gave none, and for errors in the invoker
	// itself.
	TextAbnormal = "The action did not produce a valid response and exited unexpectedly."
)

// InitOutcome converts a finished /init. ok is true if the action is ready to run.
// Otherwise r is the response of the activation. oom reports whether the container ran
// out of memory; it is used only if the exchange is Broken. The caller must handle an
// unhealthy proxy first.
func InitOutcome(x Exchange, timeout time.Duration, oom bool) (r activation.Response, ok bool) {
	switch {
	case x.OK():
		return activation.Response{}, true
	case x.Failure == Cancelled:
		return abnormal(activation.StatusWhiskError), false
	case x.Failure == Timeout || x.Elapsed() >= timeout:
		return developer(fmt.Sprintf(textInitTimeout, timeout.Milliseconds())), false
	case x.Truncated:
		return truncated(x, activation.StatusDeveloperError), false
	case x.Failure == None:
		return initAnswer(x), false
	case oom:
		return developer(textMemory), false
	}
	return developer(TextNotInitialized), false
}

// initAnswer returns the response for a proxy that could not load the action.
func initAnswer(x Exchange) activation.Response {
	result, err := activation.Canonical(x.Body)
	if err == nil && result[0] == '{' {
		if value, found := errorOf(result); found {
			return sized(activation.ErrorValue(activation.StatusDeveloperError, value), x)
		}
	}
	return sized(developer(withBody(textInitFailed, x.Body)), x)
}

// RunOutcome converts a finished /run. oom is as in InitOutcome.
func RunOutcome(x Exchange, timeout time.Duration, oom bool) activation.Response {
	switch {
	case x.Failure == Cancelled:
		return abnormal(activation.StatusWhiskError)
	case x.Failure == Timeout || x.Elapsed() >= timeout:
		// Even if the action answered, it was too late.
		return developer(fmt.Sprintf(textRunTimeout, timeout.Milliseconds()))
	case x.Truncated:
		return truncated(x, activation.StatusApplicationError)
	case x.Failure == None:
		return sized(runAnswer(x), x)
	case oom:
		return developer(textMemory)
	}
	return abnormal(activation.StatusDeveloperError)
}

// runAnswer judges a complete answer. An object with an error is reduced to the error,
// whatever the status.
func runAnswer(x Exchange) activation.Response {
	result, err := activation.Canonical(x.Body)
	if err != nil || result[0] != '{' && result[0] != '[' {
		return developer(withBody(textNotJSON, x.Body))
	}
	succeeded := x.Status == http.StatusOK
	if result[0] == '{' {
		if value, found := errorOf(result); found {
			status := activation.StatusDeveloperError
			if succeeded {
				status = activation.StatusApplicationError
			}
			return activation.ErrorValue(status, value)
		}
	}
	if !succeeded {
		return developer(withBody(textNotJSON, x.Body))
	}
	return activation.Response{StatusCode: activation.StatusSuccess, Result: result}
}

// errorOf returns the error in an object in canonical form. In that form a key occurs
// literally, so an object without the text has no such key.
func errorOf(object []byte) (value []byte, found bool) {
	if !bytes.Contains(object, []byte(`"error":`)) {
		return nil, false
	}
	all, err := activation.Members(object)
	if err != nil {
		return nil, false
	}
	for _, m := range all {
		if m.Key == "error" {
			return m.Value, true
		}
	}
	return nil, false
}

// withBody ends a sentence with the answer, or with a full stop if there is none.
func withBody(text string, body []byte) string {
	if len(body) == 0 {
		return text + "."
	}
	return text + ": " + string(body)
}

func developer(text string) activation.Response {
	return activation.ErrorResponse(activation.StatusDeveloperError, text)
}

func abnormal(status int) activation.Response {
	return activation.ErrorResponse(status, TextAbnormal)
}

// truncated returns the response for a truncated answer. Its size is in bytes, as
// declared by the answer.
func truncated(x Exchange, status int) activation.Response {
	text := fmt.Sprintf(textTruncated, x.ContentLength, x.Max, x.Body)
	return activation.ErrorResponse(status, text).WithSize(int(x.ContentLength))
}

// sized sets the size in UTF-16 units, as OpenWhisk counts the answer's text.
func sized(r activation.Response, x Exchange) activation.Response {
	return r.WithSize(activation.UTF16Length(string(x.Body)))
}
