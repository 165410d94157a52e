package invoker

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPromisesAreTested: each promise of docs/delivery.md has a row in
// testdata/promises.md, and each test that is named there exists.
func TestPromisesAreTested(t *testing.T) {
	promises := read(t, filepath.Join("..", "docs", "delivery.md"))
	tests := read(t, filepath.Join("testdata", "promises.md"))
	row := regexp.MustCompile(`(?m)^\| (.+?) \| .+ \|$`)
	rows := row.FindAllStringSubmatch(promises, -1)
	if len(rows) < 50 {
		t.Fatalf("only %d promises are found", len(rows))
	}
	for _, m := range rows {
		if strings.HasPrefix(m[1], "at the st") {
			continue
		}
		if !strings.Contains(tests, "\n| "+m[1]+" | ") {
			t.Errorf("testdata/promises.md has no row for: %s", m[1])
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Za-z0-9]+)`").FindAllStringSubmatch(tests, -1)
	if len(named) < 60 {
		t.Fatalf("only %d tests are named", len(named))
	}
	exists := declaredTests(t)
	for _, m := range named {
		if !exists[m[1]] {
			t.Errorf("testdata/promises.md names %s, which does not exist", m[1])
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declaredTests are the names of all tests of the module.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	exists := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Za-z0-9]+)\(`)
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "build" || d.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		for _, m := range declared.FindAllStringSubmatch(read(t, name), -1) {
			exists[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return exists
}
