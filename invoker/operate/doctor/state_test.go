package doctor

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWritable: where a directory is, or could be made, is reported without making
// it; a file in its way is not taken for one.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	far := filepath.Join(dir, "a", "b")
	if at, err := writable(t.Context(), far); at != dir || err != nil {
		t.Errorf("to be made: %s, %v", at, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("it was made")
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if at, err := writable(t.Context(), filepath.Join(dir, "a")); at != filepath.Join(dir, "a") || err == nil {
		t.Errorf("a file: %s, %v", at, err)
	}
}
