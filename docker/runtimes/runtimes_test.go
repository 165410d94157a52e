package runtimes_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
)

func dirFS(dir string) fs.FS { return os.DirFS(dir) }

func TestFamilyOf(t *testing.T) {
	for kind, want := range map[string]runtimes.Family{
		"python:3.11": runtimes.Python, "python:default": runtimes.Python, "python": runtimes.Python,
		"nodejs:20": runtimes.NodeJS, "blackbox": runtimes.Native, "native": runtimes.Native,
		"java:8": "", "": "", "pythonic:3": "",
	} {
		if got, ok := runtimes.FamilyOf(kind); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v", kind, got, ok)
		}
	}
}

func TestCommand(t *testing.T) {
	p := runtimes.Programs{Python: []string{"/py", "-X", "dev"}, Native: []string{"/native"}}
	argv, err := p.Command("/proxies", "python:3.11")
	if err != nil || len(argv) != 4 || argv[3] != filepath.FromSlash("/proxies/python3/proxy.py") {
		t.Errorf("%v %v", argv, err)
	}
	if argv, err := p.Command("/proxies", "blackbox"); err != nil || len(argv) != 1 || argv[0] != "/native" {
		t.Errorf("%v %v", argv, err)
	}
	if _, err := p.Command("/proxies", "nodejs:20"); !errors.Is(err, runtimes.ErrNoProgram) {
		t.Errorf("%v", err)
	}
	if _, err := p.Command("/proxies", "java:8"); !errors.Is(err, runtimes.ErrNoFamily) {
		t.Errorf("%v", err)
	}
}

func TestWriteReplacesWhatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 {
		if err := runtimes.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"python3/proxy.py", "nodejs/proxy.js"} {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
