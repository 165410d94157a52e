package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"runtime"
)

// subject returns the beginning of a failed check's message: the text of the test
// and the expression that is checked. Only a check may call it, because it reads its
// caller's caller.
func subject(about []any) string {
	_, name, line, _ := runtime.Caller(2)
	checked := expression(name, line)
	switch {
	case len(about) == 0:
		return checked
	case checked == "":
		return fmt.Sprintf(about[0].(string), about[1:]...)
	}
	return fmt.Sprintf(about[0].(string), about[1:]...) + ": " + checked
}

// expression returns the second argument of the check in a line of a source file, or
// "" if the file cannot be read.
func expression(name string, line int) (found string) {
	source, _ := os.ReadFile(name)
	files := token.NewFileSet()
	file, _ := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if file == nil {
		return ""
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || files.Position(call.Pos()).Line != line || len(call.Args) < 2 {
			return true
		}
		if !isCheck(call.Fun) {
			return true
		}
		from, to := files.Position(call.Args[1].Pos()), files.Position(call.Args[1].End())
		found = string(source[from.Offset:to.Offset])
		return false
	})
	return found
}

func isCheck(function ast.Expr) bool {
	of, ok := function.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := of.X.(*ast.Ident)
	return ok && x.Name == "check"
}
