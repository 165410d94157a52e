package harness

import (
	"os"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Read reads a file that must be there.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	check.NoError(t, err)
	return text
}
