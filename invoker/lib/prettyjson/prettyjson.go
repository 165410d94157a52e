// Package prettyjson writes JSON for people and for programs that they write: indented,
// and with <, > and & as they are. It knows nothing of what it writes.
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
