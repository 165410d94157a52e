package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
)

// Refusal is the answer to a request that is not carried out: its HTTP status,
// and its text as OpenWhisk has it.
type Refusal struct {
	Status int
	Text   string
}

// Error is the text.
func (e *Refusal) Error() string { return e.Text }

// Refuse makes a refusal.
func Refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{status, fmt.Sprintf(format, args...)}
}

// Bad refuses a request with wrong content.
func Bad(format string, args ...any) *Refusal {
	return Refuse(http.StatusBadRequest, format, args...)
}

// Malformed refuses content that cannot be read.
func Malformed(format string, args ...any) *Refusal {
	return Bad("The request content was malformed:\n"+format, args...)
}

// tooLarge refuses a field of more bytes than allowed.
func tooLarge(field string, is, allowed int) error {
	if is <= allowed {
		return nil
	}
	return Refuse(http.StatusRequestEntityTooLarge, "%s larger than allowed: %d > %d bytes.", field, is, allowed)
}

// decodeBody reads JSON from a user. Errors are for the user to read.
func decodeBody(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	if refused := (*Refusal)(nil); err == nil || errors.As(err, &refused) { // from an UnmarshalJSON of ours
		return err
	}
	return Malformed("%s", inWords(err))
}

// inWords words an error of the decoder for a user, without Go's types.
func inWords(err error) string {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Sprintf("want %s, got JSON %s", wanted(wrong.Type), wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Sprintf("'%s' must be %s, got JSON %s", wrong.Field, wanted(wrong.Type), wrong.Value)
	case errors.As(err, &syntax):
		return fmt.Sprintf("not JSON from byte %d on: %v", syntax.Offset, syntax)
	}
	return err.Error()
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}
