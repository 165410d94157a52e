package runtimes_test

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
)

// failure is the error of an answer.
func failure(t *testing.T, text string) string {
	t.Helper()
	e, _ := mustJSON(t, text).(map[string]any)["error"].(string)
	return e
}

func TestPythonException(t *testing.T) {
	p := start(t, runtimes.Python)
	p.load("def main(p):\n    inner()\n\ndef inner():\n    raise ValueError('boom')\n")
	status, text := p.post("/run", runBody(`{}`))
	if status != 200 || text != "{\"error\": \"boom\"}\n" {
		t.Errorf("%d %q", status, text)
	}
	_, log := p.logs()
	if !strings.HasPrefix(log, "Traceback (most recent call last):\n  File ") ||
		!strings.HasSuffix(log, "ValueError: boom\n\n") || strings.Contains(log, "proxy.py") ||
		!strings.Contains(log, "line 5, in inner") {
		t.Errorf("log %q", log)
	}
}

func TestPythonStatesOfLoading(t *testing.T) {
	for _, c := range []struct {
		name, code, main string
		status           int
		err, log         string
	}{
		{"syntax", "def main(p:\n", "main", 502,
			"The action failed to generate or locate a binary. See logs for details.", "SyntaxError"},
		{"no main", "def foo(p):\n    pass\n", "bar", 502,
			"Cannot start action. Check logs for details.", "cannot import name 'bar' from 'main__'"},
		{"raises", "raise RuntimeError('top level')\n", "main", 502,
			"Cannot start action. Check logs for details.", "RuntimeError: top level"},
		{"exits", "import sys\nsys.exit(3)\n", "main", 502,
			"Cannot start action. Check logs for details.", "Command exited abruptly"},
		{"no code", "", "main", 403, "Missing main/no code to execute.", ""},
		{"no base64", "%%%", "main", 400, "cannot decode the request: ", ""},
		{"other main", "def bar(p):\n    return {}\n", "bar", 200, "", ""},
		{"main left out", "def main(p):\n    return {}\n", "", 200, "", ""},
	} {
		p := start(t, runtimes.Python)
		status, text := p.post("/init", initBody(c.code, c.main, c.name == "no base64", nil))
		if status != c.status || !strings.HasPrefix(failure(t, text), c.err) {
			t.Errorf("%s: %d %q", c.name, status, text)
		}
		if c.log != "" {
			if _, log := p.logs(); !strings.Contains(log, c.log) || strings.Contains(log, "proxy.py") {
				t.Errorf("%s: log %q", c.name, log)
			}
		}
	}
}

func TestPythonArchiveWithoutMain(t *testing.T) {
	p := start(t, runtimes.Python)
	status, text := p.post("/init", initBody(archive(t, map[string]string{"other.py": ""}, nil), "main", true, nil))
	if status != 502 || failure(t, text) != "The action failed to generate or locate a binary. See logs for details." {
		t.Errorf("%d %q", status, text)
	}
	if _, log := p.logs(); log != "Zip file does not include main__\n" {
		t.Errorf("log %q", log)
	}
}

func TestPythonVirtualenv(t *testing.T) {
	p := start(t, runtimes.Python)
	code := archive(t, map[string]string{
		"__main__.py": "import inside\ndef main(p):\n    return {'from': inside.here}\n",
		"virtualenv/bin/activate_this.py": "import sys, os\n" +
			"sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'lib'))\n",
		"virtualenv/lib/inside.py": "here = 'virtualenv'\n"}, nil)
	p.post("/init", initBody(code, "main", true, nil))
	if status, text := p.post("/run", runBody(`{}`)); status != 200 || text != "{\"from\": \"virtualenv\"}\n" {
		t.Errorf("%d %q", status, text)
	}
}

// What ends the stock runtime's process ends the action here too: its process
// is this one, so it answers that and runs nothing more.
func TestPythonActionThatEnds(t *testing.T) {
	for name, body := range map[string]string{
		"exit":          "    import sys; sys.exit(1)",
		"no JSON":       "    return {'a': {1, 2}}",
		"circle":        "    p['p'] = p; return p",
		"half a letter": "    return {'a': '\\ud800'}",
		"interrupt":     "    raise KeyboardInterrupt()",
	} {
		p := start(t, runtimes.Python)
		p.load("def main(p):\n" + body + "\n")
		if status, text := p.post("/run", runBody(`{}`)); status != 400 || failure(t, text) != "command exited" {
			t.Errorf("%s: %d %q", name, status, text)
		}
		p.logs()
		if status, _ := p.post("/run", runBody(`{}`)); status != 500 {
			t.Errorf("%s: runs again: %d", name, status)
		}
	}
}

func TestPythonNothingReturned(t *testing.T) {
	p := start(t, runtimes.Python)
	p.load("def main(p):\n    pass\n")
	// The stock runtime lets null through; the invoker calls it no valid answer.
	if status, text := p.post("/run", runBody(`{}`)); status != 200 || text != "null\n" {
		t.Errorf("%d %q", status, text)
	}
}

// A CUDA context belongs to the process, and some libraries want its main
// thread; what an action loads must be there at its next run.
func TestPythonKeepsOneProcessAndItsMainThread(t *testing.T) {
	p := start(t, runtimes.Python)
	p.load("import os, threading\nn = 0\npid = os.getpid()\ndef main(p):\n    global n\n    n += 1\n" +
		"    return {'n': n, 'same': pid == os.getpid() == " + itoa(p.cmd.Process.Pid) +
		", 'main': threading.current_thread() is threading.main_thread()}\n")
	for i := 1; i <= 3; i++ {
		status, text := p.post("/run", runBody(`{}`))
		if want := "{\"n\": " + itoa(i) + ", \"same\": true, \"main\": true}\n"; status != 200 || text != want {
			t.Errorf("%d %q, want %q", status, text, want)
		}
	}
}

// Whatever path output takes, it comes before the sentinel.
func TestPythonOutputComesBeforeTheSentinel(t *testing.T) {
	p := start(t, runtimes.Python)
	p.load(strings.Join([]string{
		"import ctypes, os, subprocess, sys",
		"print('init')",
		"def main(p):",
		"    sys.stdout.write('printed\\n')",
		"    os.write(1, b'written\\n')",
		"    libc = ctypes.CDLL(None)",
		"    libc.printf(b'from C\\n')",
		"    subprocess.run(['/bin/sh', '-c', 'echo child; echo child >&2'])",
		"    sys.stdout.write('no end')",
		"    sys.stdout.reconfigure(line_buffering=False)",
		"    sys.stdout.write('\\nburied\\n')",
		"    return {}",
	}, "\n"))
	p.post("/run", runBody(`{}`))
	out, err := p.logs()
	for _, want := range []string{"init\n", "printed\n", "written\n", "from C\n", "child\n", "no end\n", "buried\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
	if err != "child\n" {
		t.Errorf("stderr %q", err)
	}
}

func TestPythonCannotLoseTheSentinel(t *testing.T) {
	for name, code := range map[string]string{
		"closes":   "import sys\ndef main(p):\n    sys.stdout.close(); sys.stderr.close(); return {}\n",
		"closes 1": "import os\ndef main(p):\n    os.close(1); os.close(2); return {}\n",
		"replaces": "import sys, io\ndef main(p):\n    sys.stdout = io.StringIO(); sys.stderr = None; return {}\n",
		"forks":    "import os\ndef main(p):\n    os.fork() and os.wait(); return {}\n",
	} {
		p := start(t, runtimes.Python)
		p.load(code)
		for range 2 {
			status, text := p.post("/run", runBody(`{}`))
			if status != 200 || text != "{}\n" {
				t.Errorf("%s: %d %q", name, status, text)
			}
			p.logs()
			if name == "closes" || name == "closes 1" {
				break
			}
		}
	}
}

// Tools such as kernel compilers read the source of a function back.
func TestPythonSourceCanBeRead(t *testing.T) {
	p := start(t, runtimes.Python)
	p.load("import inspect\ndef main(p):\n    return {'source': inspect.getsource(main), 'name': __name__}\n")
	status, text := p.post("/run", runBody(`{}`))
	if status != 200 || !strings.Contains(text, "inspect.getsource(main)") || !strings.Contains(text, `"name": "main__"`) {
		t.Errorf("%d %q", status, text)
	}
}

func TestPythonDoesNotShowItself(t *testing.T) {
	p := start(t, runtimes.Python)
	p.load("def main(p):\n    try:\n        import proxy\n        return {'found': True}\n" +
		"    except ImportError:\n        return {'found': False}\n")
	if _, text := p.post("/run", runBody(`{}`)); text != "{\"found\": false}\n" {
		t.Errorf("%q", text)
	}
}
