package invoker

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This test is the plan of the imports: which package may know which. A package
// that is not in the plan fails it. ARCHITECTURE.md says why the plan is so.

const module = "github.com/gpuwhisk/gpuwhisk"

// plan lists, for each package, the packages that it may import.
var plan = map[string][]string{
	// Tests of the collection, and the stand-in for the original invoker.
	"ansible/tests":       {},
	"ansible/tests/stock": {"activation", "invoker/tlsstore"},

	"activation":               {},
	"activation/couchbase":     {"activation/records"},
	"activation/elasticsearch": {"activation/records"},
	"activation/couchdb":       {"activation", "activation/outage", "activation/records", "activation/socket", "activation/steps"},
	"activation/journal":       {"activation", "activation/slab", "activation/wal"},
	"activation/kafka":         {"activation", "activation/outage", "activation/socket"},
	// Waiting and telling of what is away: whoever talks with a peer may.
	"activation/outage":  {},
	"activation/records": {"activation", "activation/outage", "activation/wal"},
	"activation/s3":      {},
	"activation/slab":    {},
	"activation/socket":  {},
	"activation/wal":     {"activation/outage"},
	// Telling of what is done for an activation: adapters may.
	"activation/steps": {"activation"},

	"sched":       {"gpu/start"},
	"sched/sim":   {"gpu", "gpu/lane", "gpu/start", "sched"},
	"gpu":         {"gpu/start"},
	"gpu/lane":    {"gpu", "gpu/start", "sched"},
	"gpu/start":   {},
	"gpu/nvml":    {"gpu", "activation/outage"},
	"gpu/shimctl": {"gpu", "activation/outage"},
	// Only tests import it.
	"gpu/shimctl/shimtest": {},

	// Only tests import them.
	"invoker/peertest": {},
	"invoker/gauge":    {},

	// Functions to start from.
	"examples": {},

	"docker/runtimes":                            {},
	"docker/runtimes/native":                     {},
	"docker/runtimes/native/cmd/gpuwhisk-native": {"docker/runtimes/native"},

	"invoker":           {"activation", "activation/outage", "activation/slab", "activation/steps", "gpu", "gpu/lane", "gpu/start", "invoker/container", "invoker/explain", "invoker/proxy", "sched"},
	"invoker/admin":     {},
	"invoker/config":    {},
	"invoker/kamon":     {},
	"invoker/container": {},
	"invoker/doctor": {"activation", "activation/couchdb", "activation/kafka", "gpu", "gpu/nvml", "gpu/shimctl", "invoker/config",
		"activation/records", "invoker/container", "invoker/devices", "invoker/docker", "invoker/proxy", "invoker/stores", "invoker/tlsstore", "invoker/zookeeper"},
	"invoker/console":  {},
	"invoker/explain":  {},
	"invoker/top":      {"invoker/explain"},
	"invoker/devices":  {"activation", "gpu", "gpu/nvml", "gpu/shimctl", "invoker/container"},
	"invoker/docker":   {"activation/outage", "activation/steps", "invoker/container", "invoker/logs"},
	"invoker/gpucheck": {"gpu", "gpu/nvml", "gpu/shimctl"},
	"invoker/goheap":   {},
	"invoker/handover": {"activation", "activation/kafka"},
	"invoker/load":     {},
	"invoker/logs":     {"invoker/container"},
	"invoker/mps":      {"activation/outage"},
	"invoker/process":  {"invoker/container", "invoker/logs"},
	"invoker/proxy":    {"activation", "activation/socket", "invoker/container"},
	// Opens the stores beside CouchDB.
	"invoker/stores":    {"activation/couchbase", "activation/elasticsearch", "activation/records", "activation/s3", "invoker/config"},
	"invoker/simulated": {"gpu", "invoker/container"},
	"invoker/tlsstore":  {"invoker/config"},
	"invoker/trace":     {"invoker/explain"},
	"invoker/warmth":    {"invoker/container"},
	"invoker/zookeeper": {"activation/outage"},
	"invoker/userlogs":  {"activation/outage"},
	// Makes the bill of materials of a release.
	"invoker/package/sbom": {},
	// Packs the Ansible collection of a release.
	"invoker/package/collection": {},

	"invoker/standalone": {"activation", "docker/runtimes", "invoker/standalone/broker", "invoker/standalone/catalog",
		"invoker/standalone/controller", "invoker/standalone/couchdb", "invoker/standalone/rest", "invoker/standalone/store"},
	"invoker/standalone/broker":  {},
	"invoker/standalone/catalog": {"activation", "invoker/standalone/couchdb", "invoker/standalone/entity"},
	"invoker/standalone/controller": {"activation", "invoker/standalone/broker", "invoker/standalone/catalog",
		"invoker/standalone/couchdb", "invoker/standalone/entity"},
	"invoker/standalone/couchdb": {},
	"invoker/standalone/entity":  {"activation"},
	"invoker/standalone/rest": {"activation", "invoker/standalone/catalog", "invoker/standalone/controller",
		"invoker/standalone/couchdb", "invoker/standalone/entity"},
	"invoker/standalone/store": {},
}

// wiring rooms meet adapters with ports and may import any room.
var wiring = []string{"invoker/assembly", "invoker/cmd/gpuwhisk", "invoker/demo", "invoker/bench", "invoker/e2e", "invoker/replay"}

// owners are the only rooms that may import a library of the outside, tests
// aside.
var owners = map[string][]string{
	"github.com/segmentio/kafka-go":           {"activation/kafka"},
	"github.com/couchbase/gocb":               {"activation/couchbase"},
	"github.com/go-kivik/kivik":               {"activation/couchdb"},
	"github.com/elastic/go-elasticsearch":     {"activation/elasticsearch"},
	"github.com/minio/minio-go":               {"activation/s3"},
	"github.com/moby/moby":                    {"invoker/docker"},
	"oras.land/oras-go":                       {"invoker/docker"},
	"github.com/NVIDIA/go-nvml":               {"gpu/nvml"},
	"github.com/go-zookeeper/zk":              {"invoker/zookeeper"},
	"github.com/twmb/franz-go":                {"activation/kafka", "invoker/standalone/broker", "invoker/bench", "ansible/tests/stock"},
	"go.etcd.io/bbolt":                        {"invoker/standalone/store"},
	"software.sslmate.com/src/go-pkcs12":      {"invoker/tlsstore"},
	"github.com/pavlo-v-chernykh/keystore-go": {"invoker/tlsstore"},
	"github.com/apache/openwhisk-client-go":   {"invoker/demo"},
	"gonum.org/v1/plot":                       {"sched/sim"},
	"github.com/rivo/tview":                   {"invoker/top"},
	"github.com/gdamore/tcell":                {"invoker/top"},
	"github.com/alecthomas/kong":              {"invoker/cmd/gpuwhisk"},
	"github.com/prometheus/client_golang":     {"invoker", "invoker/assembly", "invoker/kamon"},
	"go.opentelemetry.io":                     {"invoker/trace"},
}

// pure packages decide: no IO, no goroutines, no clock, no chance.
var pure = []string{"activation", "sched", "gpu", "gpu/lane", "gpu/start", "invoker/container"}

// impure names what a pure package may not import.
var impure = []string{"net", "os", "sync", "context", "log", "io", "math/rand", "crypto/rand", "syscall", "runtime", "unsafe"}

// clocks are the functions of package time that read or wait for a clock.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// file is one source file of the module, tests aside.
type file struct {
	room string
	name string
	ast  *ast.File
}

func house(t *testing.T) []file {
	t.Helper()
	root := ".."
	var files []file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(name, root), "/"))
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "" || d.Name() == "testdata" || d.Name() == "build") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		files = append(files, file{path.Dir(rel), rel, parsed})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d files found: the test looks in the wrong place", len(files))
	}
	return files
}

func TestRoomsKnowOnlyThePlan(t *testing.T) {
	for _, f := range house(t) {
		allowed, planned := plan[f.room]
		wires := slices.Contains(wiring, f.room)
		if !planned && !wires {
			t.Errorf("%s: room %s is not in the plan", f.name, f.room)
			continue
		}
		for _, spec := range f.ast.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			room, ours := strings.CutPrefix(target, module+"/")
			if ours && !wires && !slices.Contains(allowed, room) {
				t.Errorf("%s: room %s may not import %s", f.name, f.room, room)
			}
			for library, rooms := range owners {
				if (target == library || strings.HasPrefix(target, library+"/")) && !slices.Contains(rooms, f.room) {
					t.Errorf("%s: only %v may import %s", f.name, rooms, library)
				}
			}
		}
	}
}

func TestPureRoomsArePure(t *testing.T) {
	for _, f := range house(t) {
		if !slices.Contains(pure, f.room) {
			continue
		}
		for _, spec := range f.ast.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			first, _, _ := strings.Cut(target, "/")
			if slices.Contains(impure, target) || slices.Contains(impure, first) || strings.Contains(first, ".") && !strings.HasPrefix(target, module) {
				t.Errorf("%s: a pure room may not import %s", f.name, target)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a pure room starts no goroutine", f.name)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
					t.Errorf("%s: a pure room does not call time.%s", f.name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestOnlyTheCommandTouchesTheProcess: nothing else reads the environment or
// ends the process.
func TestOnlyTheCommandTouchesTheProcess(t *testing.T) {
	commands := []string{"invoker/cmd/gpuwhisk", "ansible/tests/stock", "invoker/package/sbom", "invoker/package/collection",
		"docker/runtimes/native/cmd/gpuwhisk-native"}
	for _, f := range house(t) {
		if slices.Contains(commands, f.room) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if ok && x.Name == "os" && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "Exit", "Setenv"}, sel.Sel.Name) {
				t.Errorf("%s: os.%s belongs into a command", f.name, sel.Sel.Name)
			}
			return true
		})
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init has effects that nobody asked for", f.name)
			}
		}
	}
}

// TestLaneIsOneFile: of the GPU lane the invoker has one file, which turns orders
// into work and news into events; whatever decides is in gpu/lane.
func TestLaneIsOneFile(t *testing.T) {
	const home = "invoker/gpu.go"
	for _, f := range house(t) {
		if f.room != "invoker" {
			continue
		}
		if strings.HasPrefix(f.name, "invoker/gpu") && f.name != home {
			t.Errorf("%s: the GPU lane is %s; a file is named for what it is", f.name, home)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || f.name == home {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
				if of, ok := star.X.(*ast.Ident); ok && of.Name == "gpuLane" {
					t.Errorf("%s: %s is the lane's and belongs into %s", f.name, fn.Name.Name, home)
				}
			}
		}
	}
	text, err := os.ReadFile("gpu.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > 420 {
		t.Errorf("%s has %d lines: what is more than translation belongs elsewhere", home, n)
	}
}

// TestPlanIsOfThisHouse: a room that is gone leaves the plan.
func TestPlanIsOfThisHouse(t *testing.T) {
	for room := range plan {
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(room))); err != nil {
			t.Errorf("the plan names a room that does not exist: %s", room)
		}
	}
}

// The page of dependencies names every module that the project itself asks for.
func TestPlanNamesEveryDependency(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`/v[0-9]+$`)
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllSubmatch(mod, -1)
	if len(direct) < 10 {
		t.Fatalf("%d modules in go.mod, which is not read right", len(direct))
	}
	for _, m := range direct {
		name := version.ReplaceAllString(string(m[1]), "")
		for _, host := range []string{"github.com/", "go.", "golang.org/", "software."} {
			name = strings.TrimPrefix(name, host)
		}
		if short := name[strings.LastIndexByte(name, '/')+1:]; !strings.Contains(string(page), name) && !strings.Contains(string(page), short+"`") {
			t.Errorf("docs/dependencies.md does not tell what %s is for", m[1])
		}
	}
}
