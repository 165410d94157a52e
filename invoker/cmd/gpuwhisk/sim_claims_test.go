package main

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestIntoADocumentOrJSON: --into and --json exclude each other, because with --json the
// document would not be written.
func TestIntoADocumentOrJSON(t *testing.T) {
	for _, command := range []string{"claims", "grid"} {
		_, err := parseSim(t, command, "--into", "doc.md", "--json")
		check.ErrorContains(t, err, "--into: writes Markdown", "%s", command)
	}
}
