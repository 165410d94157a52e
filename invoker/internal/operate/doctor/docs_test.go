package doctor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestChecksAreExplained: docs/doctor.md describes every check, and every warning or
// failure has a fix.
func TestChecksAreExplained(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/doctor.md")
	check.NoError(t, err)
	names := 0
	for _, c := range checks() {
		names++
		if !strings.Contains(string(text), "\n| "+c.name+" | ") {
			t.Errorf("docs/doctor.md has no row for the check %q", c.name)
		}
		if !strings.Contains(string(text), "\n### "+c.group+"\n") {
			t.Errorf("docs/doctor.md has no section for the group %s", c.group)
		}
	}
	if names < 30 {
		t.Errorf("only %d checks are known", names)
	}
	files, err := filepath.Glob("*.go")
	check.NoError(t, err)
	calls := 0
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		check.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			if f, ok := call.Fun.(*ast.Ident); ok && (f.Name == "warn" || f.Name == "fail") {
				calls++
				if fix, ok := call.Args[0].(*ast.BasicLit); ok && fix.Value == `""` {
					t.Errorf("%s has a finding without a way to fix it", file)
				}
			}
			return true
		})
	}
	if calls < 40 {
		t.Errorf("only %d findings are found in the source: has the way to create findings changed?", calls)
	}
}
