package harness

import (
	"os"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Read returns the content of a file. It fails the test if the file cannot be read.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	check.NoError(t, err)
	return text
}
