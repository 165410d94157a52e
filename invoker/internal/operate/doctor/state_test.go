package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestWritable: the nearest existing directory is reported without creating anything,
// and a file in the way is not mistaken for a directory.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	far := filepath.Join(dir, "a", "b")
	at, err := writable(t.Context(), far)
	check.NoError(t, err, "to be made")
	check.Equal(t, at, dir, "to be made")
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("it was made")
	}
	check.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	at, err = writable(t.Context(), filepath.Join(dir, "a"))
	check.That(t, err != nil, "a file")
	check.Equal(t, at, filepath.Join(dir, "a"), "a file")
}
