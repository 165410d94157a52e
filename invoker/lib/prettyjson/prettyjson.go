// Package prettyjson writes JSON for people and scripts: indented, and with <, > and &
// unescaped.
package prettyjson

import (
	"encoding/json"
	"io"
)

// Write writes a value on lines of its own.
func Write(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
