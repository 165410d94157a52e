package assembly

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Every reason that /status can name has a row of its own symptom in the
// operator's table.
func TestReasonsAreExplained(t *testing.T) {
	names, err := filepath.Glob("*.go")
	check.NoError(t, err)
	var sources strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		check.NoError(t, err)
		if !strings.HasSuffix(name, "_test.go") {
			sources.Write(text)
		}
	}
	page, err := os.ReadFile("../../../docs/operating.md")
	check.NoError(t, err)
	var rows []string
	for line := range strings.Lines(string(page)) {
		if symptom, ok := strings.CutPrefix(line, "| `/status`: "); ok {
			rows = append(rows, strings.Split(symptom, " | ")[0])
		}
	}
	found := regexp.MustCompile(`because\("([^":]+)`).FindAllStringSubmatch(sources.String(), -1)
	if len(found) < 15 {
		t.Fatalf("only %d reasons are found: are they added another way now?", len(found))
	}
	for _, m := range found {
		if !strings.Contains(strings.Join(rows, "\n"), m[1]) {
			t.Errorf("docs/operating.md does not explain %q of /status", m[1])
		}
	}
}
