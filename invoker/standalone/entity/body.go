package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// decodeBody reads JSON from a user. Errors are for the user to read.
func decodeBody(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	var bad *BadRequest
	if errors.As(err, &bad) { // from an UnmarshalJSON of ours
		return bad
	}
	return malformed("%s", plainly(err))
}

// plainly says in the user's words what the decoder says in those of Go.
func plainly(err error) string {
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
