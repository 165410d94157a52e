package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestPlainWords(t *testing.T) {
	for in, want := range map[string]string{
		"help":                      "--help",
		"help sim run":              "sim run --help",
		"standalone --tokens -3":    "standalone --tokens=-3",
		"standalone --tokens=-3 -q": "standalone --tokens=-3 -q",
		"standalone -q --port 0":    "standalone -q --port 0",
		"x -- --tokens -3":          "x -- --tokens -3",
	} {
		if got := strings.Join(plain(strings.Fields(in)), " "); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// outcome parses a command line as main does. It returns the exit status with which main
// would end (-1: none) and the printed text.
func outcome(t *testing.T, line string) (status int, text string) {
	t.Helper()
	type ended struct{}
	status = -1
	var out bytes.Buffer
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(ended); !ok {
				panic(p)
			}
		}
		text = out.String()
	}()
	exit := kong.Exit(func(code int) { status = code; panic(ended{}) })
	var c cli
	_, err := parse(&c, strings.Fields(line), exit, kong.Writers(&out, &out))
	check.NoError(t, err)
	return status, out.String()
}

// wantOutcome checks that a command line ends with a status and prints a text.
func wantOutcome(t *testing.T, line string, wantStatus int, wantText string) {
	t.Helper()
	status, text := outcome(t, line)
	check.Equal(t, status, wantStatus, "%q: %s", line, text)
	check.Contains(t, text, wantText, "%q", line)
}

func TestWrongUsageHasStatusTwoAndNamesTheFlag(t *testing.T) {
	for line, want := range map[string]string{
		"":                                 "expected one of",
		"nonsense":                         "nonsense",
		"standalone --nonsense":            "--nonsense",
		"standalone --tokens -3":           "--tokens -3: want 1 to 64",
		"standalone --tokens 65":           "--tokens 65: want 1 to 64",
		"standalone --memory-max 200MB":    "--memory-max 200 MB: want at least 256 MB",
		"standalone --port 70000":          "--port 70000: want 0 to 65535",
		"standalone --policy fastest":      "--policy fastest: want one of mqfq-sticky, sticky-plus,",
		"demo --policy fastest":            "--policy fastest: want one of mqfq-sticky, sticky-plus,",
		"standalone --gpus -1":             "--gpus -1: want 0 to 64",
		"standalone --gpu-memory lots":     `--gpu-memory: "lots" is not a size`,
		"standalone --memory-max 8GB":      "--memory-max 8 GB: want at most --memory, which is 4 GB",
		"standalone -q -v":                 "give one",
		"standalone --runtime elsewhere":   "--runtime",
		"standalone --fake-driver /absent": "/absent",

		"standalone --set whisk.gpu.pool-size":          "--set whisk.gpu.pool-size: want KEY=VALUE",
		"standalone --set whisk.gpu.pool-sise=1":        "whisk.gpu.pool-sise (from --set): no such key; the nearest is whisk.gpu.pool-size",
		"standalone --set whisk.user-event.enabled=yes": "whisk.user-event.enabled (from --set) has no effect: not a setting of this invoker; the nearest key is whisk.user-events.enabled",
		"standalone --set whisk.gpu.pool-size=many":     `whisk.gpu.pool-size: "many" (from --set) is not allowed; allowed: integer from 0`,
		"standalone --set kafka.hosts=h:1":              "kafka.hosts (from --set): use --kafka instead",
		"standalone --set whisk.couchdb.password=p":     "whisk.couchdb.password (from --set): use --couchdb instead",
		"standalone --set whisk.etcd.hosts=h:1":         "whisk.etcd.hosts (from --set): not possible in standalone: it has a controller and no schedulers",

		"standalone --kafka x --couchdb y":     "--kafka x: want HOST:PORT",
		"standalone --kafka h:1,h --couchdb y": "--kafka h: want HOST:PORT",
		"standalone --couchdb http://h:5984":   "--couchdb: want http://USER:PASSWORD@HOST:PORT",
		"standalone --namespace guest:u":       "--namespace guest: want NAME or NAME:UUID:KEY",
		"sim run --tokens -3":                  "--tokens -3: must",
		"sim run --policy fastest":             "--policy \"fastest\": not one of mqfq-sticky,",
		"sim run --series":                     "--series: needs --json",
		"sim run --load NaN":                   "--load NaN: must be above 0 and at most 100",
		"sim run --duration -1s":               "--duration -1s: must be above 0",
		"sim run --overrun 25h":                "--overrun 25h0m0s",
		"sim run --pool 0":                     "--pool 0: must be at least 1",
		"sim run --gpu-memory 1GB":             "--gpu-memory 1GB",
		"sim run --warmup 40m":                 "--warmup 40m0s",
		"sim run --trace /absent":              "--trace: stat /absent",
		"sim run --cold-extra 1s":              "--cold-extra: needs --trace",
		"sim compare --seeds 0":                "--seeds 0: must lie within 1 and 10000",
		"sim compare --parallel -2":            "--parallel -2: must lie within 0 and",
		"sim compare --policies fcfs,fastest":  "--policy \"fastest\"",
		"sim compare --devices 65":             "--devices 65: must lie within 1 and 64",
		"sim sweep --over moon":                "--over \"moon\": not one of overrun,",
		"sim sweep --values x":                 "--values \"x\": not a value of overrun",
		"sim sweep --over tokens --values -1":  "--tokens -1: must",
		"sim claims --only nothing":            "--only nothing: no claim begins so",
		"sim claims --seeds -1":                "--seeds -1: must lie within",
		"sim runs /absent":                     "/absent",
		"sim runs usage_test.go":               "usage_test.go: run \"package main\": --policy \"main\": not one of",
		"sim runs --seeds 10001 testdata/runs": "--seeds 10001: must lie within",
		"sim grid --seeds 0":                   "--seeds 0: must lie within",
		"sim grid --json --into x":             "give one",
		"sim replay /absent":                   "/absent",

		"explain":           "give the id of an activation",
		"explain abc":       "\"abc\" is no activation id",
		"new":               "give the name of the function",
		"new --dir /absent": "give the name of the function",
	} {
		wantOutcome(t, line, 2, want)
	}
	for _, line := range []string{"help", "help standalone", "standalone --help"} {
		wantOutcome(t, line, 0, "Usage: gpuwhisk")
	}
	wantOutcome(t, "standalone --gpu-memory 24GiB", -1, "")
}

// TestReadmeLinesParse: each gpuwhisk command in a code block of README.md parses.
func TestReadmeLinesParse(t *testing.T) {
	page, err := os.ReadFile("../../../README.md")
	check.NoError(t, err)
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("build/shim/fake12", 0o700); err != nil { // make shim-fake
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?m)^(?:bin/)?gpuwhisk (.+?)(?: +#.*)?$").FindAllStringSubmatch(string(page), -1)
	if len(found) < 2 {
		t.Fatalf("README.md runs gpuwhisk %d times: %q", len(found), found)
	}
	for _, m := range found {
		wantOutcome(t, m[1], -1, "")
	}
}

func TestSizesHaveOneUnit(t *testing.T) {
	var sizes []string
	for _, text := range []string{"16GB", "16 GiB", "16g", "17179869184 B", "1536MB"} {
		var s size
		check.NoError(t, s.UnmarshalText([]byte(text)))
		sizes = append(sizes, s.String())
	}
	if want := []string{"16 GB", "16 GB", "16 GB", "16 GB", "1536 MB"}; !slices.Equal(sizes, want) {
		t.Errorf("%q, want %q", sizes, want)
	}
	for _, text := range []string{"", "0", "0GB", "-1GB", "GB", "16", "1.5GB", "16XB", "99999999999GB"} {
		var s size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken for %s", text, s)
		}
	}
}

// TestLibrariesAreCheckedFirst: a library that cannot be loaded is reported with its
// flag, before anything is started.
func TestLibrariesAreCheckedFirst(t *testing.T) {
	empty := t.TempDir()
	text := filepath.Join(empty, "text")
	check.NoError(t, os.WriteFile(text, []byte("no library"), 0o600))
	for want, c := range map[string]standaloneCmd{
		"--fake-driver: open driver": {FakeGPU: empty},
		"--shim: " + text:            {Shim: text},
	} {
		err := c.checkDevices(slog.New(slog.DiscardHandler))
		check.That(check.Must(t), err != nil, "want %s", want)
		check.That(t, strings.HasPrefix(err.Error(), want), "%v, want %s", err, want)
		check.ErrorContains(t, err, "make shim-fake")
	}
}

// TestSecretsHaveVariables: other users of a machine can see the arguments of a process.
// Therefore each flag that holds a password or key has a variable, and the help says so.
func TestSecretsHaveVariables(t *testing.T) {
	k, err := parser(&cli{})
	check.NoError(t, err)
	holds := regexp.MustCompile(`PASSWORD|\bKEY\b|(?i)password|secret`)
	found := 0
	_ = kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if f, is := node.(*kong.Flag); is && f.Name != "set" && !f.IsBool() && holds.MatchString(f.PlaceHolder+" "+f.Help+" "+f.Name) {
			found++
			check.AtLeast(t, len(f.Envs), 1, "variables of --%s", f.Name)
		}
		return next(nil)
	})
	check.AtLeast(t, found, 4, "flags that hold secrets")
}
