package config_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module   = "github.com/gpuwhisk/gpuwhisk"
	settings = module + "/invoker/config"
)

// program reads the module's packages and what each name in them means. Of
// packages from elsewhere nothing is known, and nothing is needed.
type program struct {
	t     *testing.T
	fset  *token.FileSet
	known map[string]*types.Package
	files map[string][]*ast.File
	info  *types.Info
}

func newProgram(t *testing.T) *program {
	return &program{t: t, fset: token.NewFileSet(), known: map[string]*types.Package{}, files: map[string][]*ast.File{},
		info: &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}, Defs: map[*ast.Ident]types.Object{}}}
}

// Import gives a package, for itself and for those that import it.
func (p *program) Import(path string) (*types.Package, error) {
	if p.known[path] != nil {
		return p.known[path], nil
	}
	dir, ours := strings.CutPrefix(path, module+"/")
	if !ours {
		stranger := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
		stranger.MarkComplete()
		p.known[path] = stranger
		return stranger, nil
	}
	plain := build.Default
	plain.CgoEnabled = false
	there, err := plain.ImportDir(filepath.Join("..", "..", dir), 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range there.GoFiles {
		f, err := parser.ParseFile(p.fset, filepath.Join(there.Dir, name), nil, 0)
		if err != nil {
			p.t.Fatal(err)
		}
		p.files[path] = append(p.files[path], f)
	}
	cfg := types.Config{Importer: p, Error: func(error) {}} // of what strangers have
	p.known[path], _ = cfg.Check(path, p.fset, p.files[path], p.info)
	return p.known[path], nil
}

// field names a field of the configuration by the struct that it is in, empty
// where a selector is none.
func field(s *types.Selection) string {
	if s == nil || s.Kind() != types.FieldVal || s.Obj().Pkg().Path() != settings {
		return ""
	}
	recv := s.Recv()
	if p, ok := recv.Underlying().(*types.Pointer); ok {
		recv = p.Elem()
	}
	return types.TypeString(recv, func(*types.Package) string { return "" }) + "." + s.Obj().Name()
}

// describes tells whether a function makes keys, and judges whether it only looks
// whether values agree: neither is a use of them.
func describes(f *ast.FuncDecl, info *types.Info) bool {
	results := info.Defs[f.Name].Type().(*types.Signature).Results()
	return results.Len() == 1 && strings.HasSuffix(results.At(0).Type().String(), "config.Key")
}

func judges(f *ast.FuncDecl) bool {
	return slices.Contains([]string{"check", "validate", "ordered", "spis"}, f.Name.Name)
}

// keyFields gives the name of each key by the field that it fills.
func keyFields(f *ast.FuncDecl, info *types.Info, into map[string]string) {
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		name := ""
		for _, e := range lit.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			member, ok := kv.Key.(*ast.Ident)
			if !ok {
				continue
			}
			switch member.Name {
			case "Name", "name":
				if s, ok := kv.Value.(*ast.BasicLit); ok {
					name = strings.Trim(s.Value, `"`)
				}
			case "value":
				ast.Inspect(kv.Value, func(n ast.Node) bool {
					if u, ok := n.(*ast.UnaryExpr); ok && u.Op == token.AND {
						if s, ok := u.X.(*ast.SelectorExpr); ok && field(info.Selections[s]) != "" {
							into[field(info.Selections[s])] = name
						}
					}
					return true
				})
			case "choose":
				ast.Inspect(kv.Value, func(n ast.Node) bool {
					if a, ok := n.(*ast.AssignStmt); ok {
						for _, l := range a.Lhs {
							if s, ok := l.(*ast.SelectorExpr); ok && field(info.Selections[s]) != "" {
								into[field(info.Selections[s])] = "whisk.spi." + name
							}
						}
					}
					return true
				})
			}
		}
		return true
	})
}

// declared are keys that a deployment gives and that only their check needs; their
// description has the reason.
var declared = map[string]string{
	"whisk.kafka.common.ssl-truststore-type":  "the format is recognised",
	"whisk.kafka.common.ssl-keystore-type":    "the format is recognised",
	"whisk.invoker.https.keystore-flavor":     "the format is recognised",
	"whisk.couchdb.provider":                  "both kinds are spoken to alike",
	"whisk.s3.cloud-front-config.domain-name": "must be empty",
	"whisk.time-limit.std":                    "documents of actions have their limits",
	"whisk.log-limit.std":                     "documents of actions have their limits",
	"whisk.concurrency-limit.std":             "documents of actions have their limits",
}

// A key that nobody reads is a promise that nobody keeps: each field that a key
// fills is read outside of this package, or by what this package offers.
func TestEveryKeyIsRead(t *testing.T) {
	p := newProgram(t)
	if _, err := p.Import(module + "/invoker/cmd/gpuwhisk"); err != nil {
		t.Fatal(err)
	}
	keys, read := map[string]string{}, map[string]bool{}
	for path, files := range p.files {
		for _, f := range files {
			for _, decl := range f.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && path == settings {
					if describes(fn, p.info) || fn.Name.Name == "spis" {
						keyFields(fn, p.info, keys)
						continue
					}
					if judges(fn) {
						continue
					}
				}
				reads(decl, p.info, read)
			}
		}
	}
	if len(keys) < 150 {
		t.Fatalf("only %d fields of keys are found: are keys described another way now?", len(keys))
	}
	for name, key := range keys {
		_, known := declared[key]
		switch {
		case !read[name] && !known:
			t.Errorf("%s fills %s, which nobody reads", key, name)
		case read[name] && known:
			t.Errorf("%s is read: it is not only declared", key)
		}
	}
}

// reads notes the fields that are read; one that is only assigned is not.
func reads(decl ast.Decl, info *types.Info, into map[string]bool) {
	written := map[ast.Expr]bool{}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				written[l] = true
			}
		case *ast.SelectorExpr:
			if name := field(info.Selections[n]); name != "" && !written[n] {
				into[name] = true
			}
		}
		return true
	})
}
