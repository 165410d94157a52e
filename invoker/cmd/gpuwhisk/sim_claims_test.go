package main

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestIntoADocumentOrJSON: a command that prints JSON would leave the document as it is.
func TestIntoADocumentOrJSON(t *testing.T) {
	for _, command := range []string{"claims", "grid"} {
		_, err := parseSim(t, command, "--into", "doc.md", "--json")
		check.ErrorContains(t, err, "--into: writes Markdown", "%s", command)
	}
}
