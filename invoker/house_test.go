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

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// This test is the plan of the imports: which package may know which. A package
// that is not in the plan fails it. ARCHITECTURE.md says why the plan is so.

const module = "github.com/gpuwhisk/gpuwhisk"

// plan lists, for each package, the packages that it may import.
var plan = map[string][]string{
	// Tests of the collection, and the stand-in for the original invoker.
	"ansible/tests":       {},
	"ansible/tests/stock": {"activation", "activation/etcd", "activation/fetch", "invoker/lib/retry", "invoker/lib/tlsstore"},

	"activation":               {},
	"activation/couchbase":     {"activation/records"},
	"activation/elasticsearch": {"activation/records"},
	"activation/couchdb":       {"activation", "invoker/lib/retry", "activation/records"},
	"activation/etcd":          {"activation", "invoker/lib/retry"},
	// Schedulers' protocol; the second is compiled from its .proto.
	"activation/fetch":              {"activation", "activation/fetch/activationpb", "invoker/lib/retry"},
	"activation/fetch/activationpb": {},
	"activation/journal":            {"activation", "invoker/lib/wal"},
	"activation/kafka":              {"activation", "invoker/lib/retry"},
	// Every client of a peer may wait for a peer that is away.
	"invoker/lib/retry": {},
	// Servers that clients cannot hold on to.
	"invoker/lib/httpserver": {},
	// JSON for people.
	"invoker/lib/prettyjson": {},
	"activation/records":     {"activation", "invoker/lib/retry", "invoker/lib/wal"},
	"activation/s3":          {},
	"invoker/lib/wal":        {"invoker/lib/retry"},

	"sched":         {},
	"sched/sim":     {"gpu", "gpu/scheduler", "sched"},
	"gpu":           {},
	"gpu/scheduler": {"gpu", "sched"},
	"gpu/nvml":      {"gpu", "invoker/lib/retry"},
	"gpu/shimctl":   {"gpu", "invoker/lib/retry"},
	// Only tests import it.
	"gpu/shimctl/shimtest": {"invoker/develop/peertest"},

	// Only tests import them.
	"invoker/develop/check":    {"invoker/develop/peertest"},
	"invoker/develop/peertest": {},
	"invoker/develop/fakescheduler": {"activation", "activation/fetch/activationpb", "invoker/develop/fakescheduler/memoryqueue",
		"invoker/develop/standalone/broker", "invoker/lib/retry"},
	"invoker/internal/develop/gauge": {},

	// A scheduler's queue, also for simulations.
	"invoker/develop/fakescheduler/memoryqueue": {"activation"},
	"invoker/internal/develop/hostsim":          {"invoker/internal/forward", "activation", "invoker/develop/fakescheduler/memoryqueue", "invoker/internal/pull/slot", "sched", "sched/sim"},

	// Functions to start from.
	"examples": {},

	"invoker/cmd/gpuwhisk-log":                   {"invoker/internal/engine/logs"},
	"docker/runtimes":                            {},
	"docker/runtimes/native":                     {},
	"docker/runtimes/native/cmd/gpuwhisk-native": {"docker/runtimes/native"},

	"invoker":                        {"activation", "invoker/lib/retry", "gpu", "gpu/scheduler", "invoker/internal/container", "invoker/internal/delivery", "invoker/internal/operate/explain", "invoker/proxy", "sched"},
	"invoker/internal/delivery":      {"activation"},
	"invoker/internal/operate/admin": {"invoker/lib/httpserver", "invoker/lib/prettyjson"},
	"invoker/internal/forward":       {},
	"invoker/internal/pull":          {"activation", "invoker", "invoker/internal/container", "invoker/lib/retry", "invoker/internal/pull/slot"},
	"invoker/internal/pull/slot":     {"activation"},
	"invoker/internal/config":        {"activation", "gpu", "invoker/lib/prettyjson", "sched"},
	"invoker/internal/operate/kamon": {},
	"invoker/internal/container":     {},
	"invoker/internal/operate/doctor": {"activation", "activation/couchdb", "activation/etcd", "activation/kafka", "gpu", "gpu/nvml", "gpu/shimctl", "invoker/internal/config",
		"activation/records", "invoker/internal/container", "invoker/internal/engine/cdi", "invoker/internal/engine/containerd", "invoker/internal/engine/devices", "invoker/internal/engine/docker", "invoker/internal/engine/logs", "invoker/internal/engine/mps", "invoker/proxy", "invoker/lib/prettyjson", "invoker/internal/peer/clients", "invoker/lib/tlsstore", "invoker/internal/peer/zookeeper"},
	"invoker/internal/operate/console": {"invoker/lib/httpserver"},
	"invoker/internal/operate/explain": {"activation"},
	"invoker/internal/operate/top":     {"invoker/internal/operate/explain"},
	"invoker/internal/engine/devices":  {"activation", "gpu", "gpu/nvml", "gpu/shimctl", "invoker/internal/container", "invoker/lib/retry"},
	"invoker/internal/engine/docker": {"invoker/lib/retry", "invoker/internal/container", "invoker/internal/engine/cdi", "invoker/internal/engine/logs", "invoker/internal/engine/netns",
		"invoker/internal/engine/registry", "invoker/internal/engine/roster", "invoker/internal/engine/runargs"},
	"invoker/internal/engine/containerd": {"invoker/lib/retry", "invoker/internal/container", "invoker/internal/engine/bridge", "invoker/internal/engine/cdi", "invoker/internal/engine/logs", "invoker/internal/engine/netns",
		"invoker/internal/engine/registry", "invoker/internal/engine/roster", "invoker/internal/engine/runargs"},
	// Only tests of engines import enginetest.
	"invoker/internal/engine/enginetest": {"invoker", "invoker/internal/container", "invoker/develop/check", "invoker/internal/engine/logs"},
	// The parts that engines share.
	"invoker/internal/engine/bridge":    {"invoker/lib/retry"},
	"invoker/internal/engine/cdi":       {},
	"invoker/internal/engine/netns":     {},
	"invoker/internal/engine/registry":  {},
	"invoker/internal/engine/roster":    {"invoker/lib/retry", "invoker/internal/container", "invoker/internal/engine/logs", "invoker/internal/engine/registry"},
	"invoker/internal/engine/runargs":   {},
	"invoker/internal/operate/gpucheck": {"gpu/nvml", "gpu/shimctl", "invoker/internal/engine/mps", "invoker/lib/prettyjson"},
	"invoker/handover":                  {"activation", "activation/etcd", "activation/fetch", "activation/kafka"},
	"invoker/internal/develop/load":     {"activation", "invoker/lib/retry"},
	"invoker/internal/engine/logs":      {"invoker/internal/container"},
	"invoker/internal/engine/mps":       {"invoker/lib/retry"},
	"invoker/internal/engine/process":   {"invoker/internal/container", "invoker/internal/engine/logs"},
	"invoker/proxy":                     {"activation", "invoker/internal/container"},
	// Makes the clients of all peers from the settings.
	"invoker/internal/peer/clients": {"activation", "activation/couchbase", "activation/couchdb", "activation/elasticsearch", "activation/etcd", "activation/kafka",
		"activation/records", "activation/s3", "invoker/internal/config", "invoker/internal/engine/containerd", "invoker/internal/engine/docker", "invoker/lib/tlsstore"},
	"invoker/internal/engine/simulated": {"gpu", "invoker/internal/container"},
	"invoker/lib/tlsstore":              {},
	"invoker/internal/operate/trace":    {"invoker/internal/operate/explain"},
	"invoker/internal/engine/statefile": {"invoker/internal/container"},
	"invoker/internal/peer/zookeeper":   {"invoker/lib/retry"},
	"invoker/internal/operate/userlogs": {"invoker/lib/retry"},

	"invoker/develop/standalone": {"activation", "docker/runtimes", "invoker/develop/standalone/broker",
		"invoker/develop/standalone/controller", "invoker/develop/standalone/couchdb", "invoker/develop/standalone/rest", "invoker/develop/standalone/store",
		"invoker/internal/config", "invoker/internal/engine/docker", "invoker/lib/httpserver"},
	"invoker/develop/standalone/broker": {"invoker/lib/retry"},
	"invoker/develop/standalone/controller": {"activation", "invoker/develop/standalone/broker",
		"invoker/develop/standalone/couchdb", "invoker/develop/standalone/entity", "invoker/lib/retry"},
	"invoker/develop/standalone/couchdb": {"activation", "invoker/develop/standalone/entity"},
	"invoker/develop/standalone/entity":  {"activation"},
	"invoker/develop/standalone/rest": {"activation", "invoker/develop/standalone/controller",
		"invoker/develop/standalone/couchdb", "invoker/develop/standalone/entity", "invoker/lib/httpserver"},
	"invoker/develop/standalone/store": {},
}

// wiring packages meet adapters with ports and may import any package.
var wiring = []string{"invoker/internal/assembly", "invoker/cmd/gpuwhisk", "invoker/internal/develop/demo", "invoker/internal/develop/bench", "invoker/internal/develop/e2e", "invoker/internal/develop/harness", "invoker/internal/develop/replay"}

// owners are the only packages that may import a library of the outside, tests
// aside.
var owners = map[string][]string{
	"github.com/segmentio/kafka-go":           {"activation/kafka"},
	"github.com/couchbase/gocb":               {"activation/couchbase"},
	"github.com/go-json-experiment/json":      {"activation"},
	"github.com/go-kivik/kivik":               {"activation/couchdb", "invoker/develop/standalone/couchdb"},
	"github.com/elastic/go-elasticsearch":     {"activation/elasticsearch"},
	"github.com/minio/minio-go":               {"activation/s3"},
	"github.com/moby/moby":                    {"invoker/internal/engine/docker", "invoker/internal/engine/runargs", "invoker/internal/engine/containerd"},
	"oras.land/oras-go":                       {"invoker/internal/engine/containerd", "invoker/internal/engine/docker", "invoker/internal/engine/registry"},
	"github.com/docker/go-units":              {"invoker/internal/engine/runargs", "invoker/internal/operate/doctor"},
	"go.yaml.in/yaml":                         {"invoker/internal/engine/cdi", "invoker/internal/operate/gpucheck"},
	"github.com/containerd/containerd":        {"invoker/internal/engine/bridge", "invoker/internal/engine/containerd"},
	"github.com/containerd/log":               {"invoker/internal/engine/containerd"},
	"github.com/sirupsen/logrus":              {"invoker/internal/engine/containerd"},
	"github.com/containerd/go-cni":            {"invoker/internal/engine/bridge"},
	"github.com/containernetworking/plugins":  {"invoker/internal/engine/netns"},
	"github.com/vishvananda/netlink":          {"invoker/internal/engine/bridge"},
	"tags.cncf.io/container-device-interface": {"invoker/internal/engine/containerd"},
	"github.com/opencontainers/runtime-spec":  {"invoker/internal/engine/containerd"},
	"github.com/NVIDIA/go-nvml":               {"gpu/nvml"},
	"github.com/go-zookeeper/zk":              {"invoker/internal/peer/zookeeper"},
	"github.com/twmb/franz-go":                {"invoker/develop/standalone/broker", "invoker/internal/develop/harness", "ansible/tests/stock"},
	"go.etcd.io/etcd":                         {"activation/etcd", "invoker/develop/fakescheduler"},
	"google.golang.org/grpc":                  {"activation/etcd", "activation/fetch", "activation/fetch/activationpb", "invoker/develop/fakescheduler"},
	"google.golang.org/protobuf":              {"activation/fetch", "activation/fetch/activationpb"},
	"go.uber.org/zap":                         {"activation/etcd", "invoker/develop/fakescheduler"},
	"go.etcd.io/bbolt":                        {"invoker/develop/standalone/store"},
	"software.sslmate.com/src/go-pkcs12":      {"invoker/lib/tlsstore"},
	"github.com/pavlo-v-chernykh/keystore-go": {"invoker/lib/tlsstore"},
	"github.com/apache/openwhisk-client-go":   {"invoker/internal/develop/demo"},
	"github.com/alecthomas/kong":              {"invoker/cmd/gpuwhisk", "sched/sim"},
	"github.com/coreos/go-systemd":            {"invoker/cmd/gpuwhisk"},
	"github.com/prometheus/client_golang":     {"invoker", "invoker/internal/assembly", "invoker/internal/operate/kamon"},
	"go.opentelemetry.io":                     {"invoker/internal/operate/trace"},
}

// pure packages decide: no IO, no goroutines, no clock, no chance.
var pure = []string{"activation", "sched", "gpu", "gpu/scheduler", "invoker/internal/container", "invoker/develop/fakescheduler/memoryqueue", "invoker/internal/delivery", "invoker/internal/forward", "invoker/internal/pull/slot"}

// pureLibraries are those of the outside that only compute.
var pureLibraries = []string{"github.com/go-json-experiment/json/jsontext"}

// impure lists the packages that a pure package may not import.
var impure = []string{"net", "os", "sync", "context", "log", "io", "math/rand", "crypto/rand", "syscall", "runtime", "unsafe"}

// clocks are the functions of package time that read or wait for a clock.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// file is one source file of the module, tests aside.
type file struct {
	pkg  string
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
	check.NoError(t, err)
	if len(files) < 50 {
		t.Fatalf("only %d files found: the test looks in the wrong place", len(files))
	}
	return files
}

func TestPackagesKnowOnlyThePlan(t *testing.T) {
	for _, f := range house(t) {
		allowed, planned := plan[f.pkg]
		wires := slices.Contains(wiring, f.pkg)
		if !planned && !wires {
			t.Errorf("%s: package %s is not in the plan", f.name, f.pkg)
			continue
		}
		for _, spec := range f.ast.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			pkg, ours := strings.CutPrefix(target, module+"/")
			if ours && !wires && !slices.Contains(allowed, pkg) {
				t.Errorf("%s: package %s may not import %s", f.name, f.pkg, pkg)
			}
			for library, pkgs := range owners {
				uses := target == library || strings.HasPrefix(target, library+"/")
				if uses && !slices.Contains(pkgs, f.pkg) {
					t.Errorf("%s: only %v may import %s", f.name, pkgs, library)
				}
			}
		}
	}
}

func TestPurePackagesArePure(t *testing.T) {
	for _, f := range house(t) {
		if !slices.Contains(pure, f.pkg) {
			continue
		}
		for _, spec := range f.ast.Imports {
			target, _ := strconv.Unquote(spec.Path.Value)
			first, _, _ := strings.Cut(target, "/")
			foreign := strings.Contains(first, ".") && !strings.HasPrefix(target, module) && !slices.Contains(pureLibraries, target)
			allowed := !foreign && !slices.Contains(impure, target) && !slices.Contains(impure, first)
			if !allowed {
				t.Errorf("%s: a pure package may not import %s", f.name, target)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a pure package starts no goroutine", f.name)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
					t.Errorf("%s: a pure package does not call time.%s", f.name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestOnlyTheCommandTouchesTheProcess: nothing else reads the environment or
// ends the process.
func TestOnlyTheCommandTouchesTheProcess(t *testing.T) {
	commands := []string{"invoker/cmd/gpuwhisk", "invoker/cmd/gpuwhisk-log", "ansible/tests/stock",
		"docker/runtimes/native/cmd/gpuwhisk-native", "invoker/internal/develop/harness", "invoker/develop/peertest"}
	for _, f := range house(t) {
		if slices.Contains(commands, f.pkg) {
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
			// Generated code of protoc registers itself.
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !strings.HasSuffix(f.name, ".pb.go") {
				t.Errorf("%s: init has effects", f.name)
			}
		}
	}
}

// TestNothingSleeps: code waits for events, and tests sleep only by the fake clock of
// testing/synctest.
func TestNothingSleeps(t *testing.T) {
	for _, dir := range spoken {
		names, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*.go"))
		check.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			check.NoError(t, err)
			fake := strings.HasSuffix(name, "_test.go") && strings.Contains(string(text), `"testing/synctest"`)
			if strings.Contains(string(text), "time.Sleep"+"(") && !fake {
				t.Errorf("%s sleeps, and not by a fake clock", name)
			}
		}
	}
}

// coined lists words that this project once made up, with the field's term for
// each. They must not come back as a part of a name.
var coined = map[string]string{
	"adrift":   "disconnected",
	"bequeath": "adopt",
	"bury":     "dead-letter",
	"elder":    "previous",
	"errand":   "pending move",
	"farewell": "final response",
	"heir":     "adopted",
	"nanny":    "engine command",
	"parcel":   "message",
	"shelf":    "spill",
}

// spoken are the folders that are free of coined words.
var spoken = []string{
	"activation",
	"activation/couchbase",
	"activation/couchdb",
	"activation/elasticsearch",
	"activation/etcd",
	"activation/fetch",
	"activation/journal",
	"activation/kafka",
	"activation/records",
	"activation/s3",
	"ansible/tests",
	"docker/runtimes",
	"docker/runtimes/native",
	"docker/runtimes/native/cmd/gpuwhisk-native",
	"examples",
	"gpu",
	"gpu/nvml",
	"gpu/scheduler",
	"gpu/shimctl",
	"gpu/shimctl/shimtest",
	"invoker",
	"invoker/internal/assembly",
	"invoker/cmd/gpuwhisk",
	"invoker/cmd/gpuwhisk-log",
	"invoker/internal/config",
	"invoker/internal/container",
	"invoker/internal/develop/bench",
	"invoker/develop/check",
	"invoker/internal/develop/demo",
	"invoker/internal/develop/e2e",
	"invoker/develop/fakescheduler",
	"invoker/develop/fakescheduler/memoryqueue",
	"invoker/internal/develop/gauge",
	"invoker/internal/develop/harness",
	"invoker/internal/develop/hostsim",
	"invoker/internal/develop/load",
	"invoker/develop/peertest",
	"invoker/internal/develop/replay",
	"invoker/develop/standalone",
	"invoker/develop/standalone/broker",
	"invoker/develop/standalone/controller",
	"invoker/develop/standalone/couchdb",
	"invoker/develop/standalone/entity",
	"invoker/develop/standalone/rest",
	"invoker/develop/standalone/store",
	"invoker/internal/engine/bridge",
	"invoker/internal/engine/cdi",
	"invoker/internal/engine/containerd",
	"invoker/internal/engine/devices",
	"invoker/internal/engine/docker",
	"invoker/internal/engine/enginetest",
	"invoker/internal/engine/logs",
	"invoker/internal/engine/mps",
	"invoker/internal/engine/netns",
	"invoker/internal/engine/process",
	"invoker/proxy",
	"invoker/internal/engine/registry",
	"invoker/internal/engine/roster",
	"invoker/internal/engine/runargs",
	"invoker/internal/engine/simulated",
	"invoker/internal/engine/statefile",
	"invoker/handover",
	"invoker/internal/delivery",
	"invoker/lib/prettyjson",
	"invoker/lib/retry",
	"invoker/lib/wal",
	"invoker/internal/operate/admin",
	"invoker/internal/operate/console",
	"invoker/internal/operate/doctor",
	"invoker/internal/operate/explain",
	"invoker/internal/operate/gpucheck",
	"invoker/internal/operate/kamon",
	"invoker/internal/operate/top",
	"invoker/internal/operate/trace",
	"invoker/internal/operate/userlogs",
	"invoker/internal/peer/clients",
	"invoker/lib/tlsstore",
	"invoker/internal/peer/zookeeper",
	"invoker/internal/pull",
	"invoker/internal/pull/slot",
	"sched",
	"sched/sim",
}

// TestPlanIsOfThisHouse: a package that is gone leaves the plan.
func TestPlanIsOfThisHouse(t *testing.T) {
	for pkg := range plan {
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(pkg))); err != nil {
			t.Errorf("the plan names a package that does not exist: %s", pkg)
		}
	}
}

// The page of dependencies names every module that the project itself asks for.
func TestPlanNamesEveryDependency(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "go.mod"))
	check.NoError(t, err)
	page, err := os.ReadFile(filepath.Join("..", "docs", "dependencies.md"))
	check.NoError(t, err)
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
			t.Errorf("docs/dependencies.md does not tell the purpose of %s", m[1])
		}
	}
}
