package invoker

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestPromisesAreTested checks that each promise of docs/delivery.md and docs/operating.md has a line in
// testdata/promises.md and the other way round, that each test named there exists, and that
// each promise of TestScripts has a script and each script a line.
func TestPromisesAreTested(t *testing.T) {
	promises := read(t, filepath.Join("..", "docs", "delivery.md")) + read(t, filepath.Join("..", "docs", "operating.md"))
	tests := read(t, filepath.Join("testdata", "promises.md"))
	made := numbered(t, `(?m)^\| ([A-Z]\d+) \| .+ \| .+ \|$`, promises)
	check.AtLeast(check.Must(t), len(made), 65)
	listed := numbered(t, "(?m)^([A-Z]\\d+): (?:`|none: ).+$", tests)
	for number := range made {
		check.That(t, listed[number], "testdata/promises.md has no line for %s", number)
	}
	for number := range listed {
		check.That(t, made[number], "testdata/promises.md has a line for %s, which no page promises", number)
	}
	scripts := scripted(t)
	for number := range made {
		line := regexp.MustCompile("(?m)^" + number + ": .*`TestScripts`")
		check.Equal(t, scripts[number], line.MatchString(tests), "%s: a script, and TestScripts in testdata/promises.md", number)
	}
	for number := range scripts {
		check.That(t, made[number], "a script shows %s, which no page promises", number)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Za-z0-9]+)`").FindAllStringSubmatch(tests, -1)
	check.AtLeast(check.Must(t), len(named), 60)
	exists := declaredTests(t)
	for _, m := range named {
		check.That(t, exists[m[1]], "testdata/promises.md names %s, which does not exist", m[1])
	}
}

// numbered finds the numbers of promises in a text, each of which it has once.
func numbered(t *testing.T, line, text string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(line).FindAllStringSubmatch(text, -1) {
		check.That(t, !found[m[1]], "two promises have the number %s", m[1])
		found[m[1]] = true
	}
	return found
}

// scripted returns the numbers of the promises that scripts of package delivery show.
func scripted(t *testing.T) map[string]bool {
	t.Helper()
	names, err := filepath.Glob("internal/delivery/testdata/*.txt")
	check.NoError(t, err)
	found := map[string]bool{}
	for _, name := range names {
		for _, heading := range regexp.MustCompile(`(?m)^# ([A-Z]\d+(?: and [A-Z]\d+)*): `).FindAllStringSubmatch(read(t, name), -1) {
			for number := range strings.SplitSeq(heading[1], " and ") {
				found[number] = true
			}
		}
	}
	check.AtLeast(t, len(found), 20)
	return found
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	check.NoError(t, err)
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
	check.NoError(t, err)
	return exists
}
