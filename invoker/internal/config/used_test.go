package config_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const (
	module   = "github.com/gpuwhisk/gpuwhisk"
	settings = module + "/invoker/internal/config"
)

// program loads the module's packages with their type information. Packages from outside
// the module are empty.
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

// Import implements types.Importer.
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
	there, err := plain.ImportDir(filepath.Join("..", "..", "..", dir), 0)
	check.NoError(p.t, err)
	for _, name := range there.GoFiles {
		f, err := parser.ParseFile(p.fset, filepath.Join(there.Dir, name), nil, 0)
		check.NoError(p.t, err)
		p.files[path] = append(p.files[path], f)
	}
	cfg := types.Config{Importer: p, Error: func(error) {}} // errors come from the empty packages
	p.known[path], _ = cfg.Check(path, p.fset, p.files[path], p.info)
	return p.known[path], nil
}

// field names a field of the configuration by its struct. It returns "" if the selector
// is not such a field.
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

// makes reports whether a function creates keys, and judges whether it only compares
// values. Neither counts as a use of a field.
func makes(f *ast.FuncDecl, info *types.Info) bool {
	results := info.Defs[f.Name].Type().(*types.Signature).Results()
	return results.Len() == 1 && strings.HasSuffix(results.At(0).Type().String(), "config.key")
}

func judges(f *ast.FuncDecl) bool {
	return f.Name.Name == "check" || f.Name.Name == "validate"
}

// tagged maps each field with a key tag to the name of its key.
func tagged(pkg *types.Package) map[string]string {
	keys := map[string]string{}
	for _, name := range pkg.Scope().Names() {
		s, ok := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for i := range s.NumFields() {
			key, _, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("key"), ",")
			if key != "" {
				keys[name+"."+s.Field(i).Name()] = key
			}
		}
	}
	return keys
}

// declared lists keys that deployments set and that only the check of the configuration
// reads, each with the reason.
var declared = map[string]string{
	"whisk.kafka.common.ssl-truststore-type":  "the format is recognised",
	"whisk.kafka.common.ssl-keystore-type":    "the format is recognised",
	"whisk.invoker.https.keystore-flavor":     "the format is recognised",
	"whisk.couchdb.provider":                  "both kinds are used alike",
	"whisk.s3.cloud-front-config.domain-name": "must be empty",
	"whisk.spi.InvokerServerProvider":         "the endpoints are those of the mode",
	"whisk.spi.MessagingProvider":             "there is one",
	"whisk.spi.ArtifactStoreProvider":         "there is one",
	"whisk.spi.ContainerFactoryProvider":      "there is one",
	"whisk.time-limit.std":                    "documents of actions have their limits",
	"whisk.log-limit.std":                     "documents of actions have their limits",
	"whisk.concurrency-limit.std":             "documents of actions have their limits",
}

// TestEveryKeyIsRead: each field that a key sets is read outside of this package, or by
// a function that this package exports. A key that is not read would have no effect.
func TestEveryKeyIsRead(t *testing.T) {
	p := newProgram(t)
	if _, err := p.Import(module + "/invoker/cmd/gpuwhisk"); err != nil {
		t.Fatal(err)
	}
	keys, read := tagged(p.known[settings]), map[string]bool{}
	for path, files := range p.files {
		for _, f := range files {
			for _, decl := range f.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && path == settings {
					if makes(fn, p.info) || judges(fn) {
						continue
					}
				}
				reads(decl, p.info, read)
			}
		}
	}
	if len(keys) < 150 {
		t.Fatalf("only %d fields of keys are found: has the form of the key tags changed?", len(keys))
	}
	for name, key := range keys {
		_, known := declared[key]
		switch {
		case !read[name] && !known:
			t.Errorf("%s fills %s, which is not read", key, name)
		case read[name] && known:
			t.Errorf("%s is read: it is not only declared", key)
		}
	}
}

// reads collects the fields that are read. A mere assignment is not a read.
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
