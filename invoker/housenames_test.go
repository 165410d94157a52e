package invoker

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestNamesAreTheFields walks all names that the code declares, tests included.
func TestNamesAreTheFields(t *testing.T) {
	word := regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
	for _, dir := range spoken {
		names, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*.go"))
		check.NoError(t, err)
		check.Greater(t, len(names), 0, "no Go in %s", dir)
		for _, name := range names {
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, name, nil, 0)
			check.NoError(t, err)
			for _, id := range declared(parsed) {
				for _, w := range word.FindAllString(id.Name, -1) {
					if better, ok := coined[strings.ToLower(w)]; ok {
						t.Errorf("%s: %s has a word of its own for what the field calls: %s", set.Position(id.Pos()), id.Name, better)
					}
				}
			}
		}
	}
}

// declared lists the names that a file gives to something.
func declared(f *ast.File) []*ast.Ident {
	var names []*ast.Ident
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name)
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.Field:
			names = append(names, n.Names...)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					names = append(names, id)
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					names = append(names, id)
				}
			}
		}
		return true
	})
	return names
}
