package runtimes_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func dirFS(dir string) fs.FS { return os.DirFS(dir) }

func TestFamilyOf(t *testing.T) {
	for kind, want := range map[string]runtimes.Family{
		"python:3.11": runtimes.Python, "python:default": runtimes.Python, "python": runtimes.Python,
		"nodejs:20": runtimes.NodeJS, "blackbox": runtimes.Native, "native": runtimes.Native,
		"java:8": "", "": "", "pythonic:3": "",
	} {
		got, ok := runtimes.FamilyOf(kind)
		check.Equal(t, got, want, "%q", kind)
		check.That(t, ok == (want != ""), "%q: %q %v", kind, got, ok)
	}
}

func TestCommand(t *testing.T) {
	p := runtimes.Programs{Python: []string{"/py", "-X", "dev"}, Native: []string{"/native"}}
	argv, err := p.Command("/proxies", "python:3.11")
	check.NoError(t, err)
	check.Equal(check.Must(t), len(argv), 4)
	check.Equal(t, argv[3], filepath.FromSlash("/proxies/python3/proxy.py"))
	argv, err = p.Command("/proxies", "blackbox")
	check.NoError(t, err)
	check.Equal(check.Must(t), len(argv), 1)
	check.Equal(t, argv[0], "/native")
	_, err = p.Command("/proxies", "nodejs:20")
	check.ErrorIs(t, err, runtimes.ErrNoProgram)
	_, err = p.Command("/proxies", "java:8")
	check.ErrorIs(t, err, runtimes.ErrNoFamily)
}

func TestWriteReplacesWhatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 {
		check.NoError(t, runtimes.Write(dir))
	}
	for _, name := range []string{"python3/proxy.py", "nodejs/proxy.js"} {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		check.NoError(t, err, "%s", name)
		check.That(t, len(text) != 0, "%s: %v", name, err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
