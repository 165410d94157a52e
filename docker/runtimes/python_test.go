package runtimes_test

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestPythonException(t *testing.T) {
	p := start(t, runtimes.Python)
	p.load("def main(p):\n    inner()\n\ndef inner():\n    raise ValueError('boom')\n")
	p.run(`{}`, 200, "{\"error\": \"boom\"}\n")
	_, log := p.logs()
	check.That(check.Must(t), strings.HasPrefix(log, "Traceback (most recent call last):\n  File "), "log %q", log)
	check.That(check.Must(t), strings.HasSuffix(log, "ValueError: boom\n\n"), "log %q", log)
	check.Lacks(t, log, "proxy.py", "log %q", log)
	check.Contains(t, log, "line 5, in inner", "log %q", log)
}

func TestPythonStatesOfLoading(t *testing.T) {
	const noBinary, cannotStart = "The action failed to generate or locate a binary. See logs for details.", "Cannot start action. Check logs for details."
	testLoading(t, runtimes.Python, "proxy.py", []loading{
		{"syntax", "def main(p:\n", "main", 502, noBinary, "SyntaxError"},
		{"no main", "def foo(p):\n    pass\n", "bar", 502, cannotStart, "cannot import name 'bar' from 'main__'"},
		{"raises", "raise RuntimeError('top level')\n", "main", 502, cannotStart, "RuntimeError: top level"},
		{"exits", "import sys\nsys.exit(3)\n", "main", 502, cannotStart, "Command exited abruptly"},
		{"no code", "", "main", 403, "Missing main/no code to execute.", ""},
		{"no base64", "%%%", "main", 400, "cannot decode the request: ", ""},
		{"other main", "def bar(p):\n    return {}\n", "bar", 200, "", ""},
		{"main left out", "def main(p):\n    return {}\n", "", 200, "", ""},
	})
}

func TestPythonArchiveWithoutMain(t *testing.T) {
	p := start(t, runtimes.Python)
	p.refuses("/init", initBody(archive(t, map[string]string{"other.py": ""}, nil), "main", true, nil), 502,
		"The action failed to generate or locate a binary. See logs for details.")
	_, log := p.logs()
	check.Equal(t, log, "Zip file does not include main__\n", "log %q", log)
}

func TestPythonVirtualenv(t *testing.T) {
	p := start(t, runtimes.Python)
	code := archive(t, map[string]string{
		"__main__.py": "import inside\ndef main(p):\n    return {'from': inside.here}\n",
		"virtualenv/bin/activate_this.py": "import sys, os\n" +
			"sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..', 'lib'))\n",
		"virtualenv/lib/inside.py": "here = 'virtualenv'\n"}, nil)
	p.post("/init", initBody(code, "main", true, nil))
	p.run(`{}`, 200, "{\"from\": \"virtualenv\"}\n")
}

// TestPythonActionThatEnds: an action that ends the stock runtime's process ends here,
// too. The proxy's process answers with an error, and runs nothing more.
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
		p.refuses("/run", runBody(`{}`), 400, "command exited")
		p.logs()
		status, _ := p.post("/run", runBody(`{}`))
		check.Equal(t, status, 500, "%s: runs again", name)
	}
}

func TestPythonResults(t *testing.T) {
	for _, c := range []struct{ name, code, want string }{
		// The stock runtime accepts null, but the invoker refuses it as an answer.
		{"nothing", "def main(p):\n    pass\n", "null\n"},
		// Tools such as kernel compilers read the source of functions.
		{"its own source", "import inspect\ndef main(p):\n    return {'found': 'inspect.getsource(main)' in inspect.getsource(main), 'name': __name__}\n",
			"{\"found\": true, \"name\": \"main__\"}\n"},
		{"not the proxy", "def main(p):\n    try:\n        import proxy\n        return {'found': True}\n" +
			"    except ImportError:\n        return {'found': False}\n", "{\"found\": false}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, runtimes.Python)
			p.load(c.code)
			p.run(`{}`, 200, c.want)
		})
	}
}

// TestPythonKeepsOneProcessAndItsMainThread: all runs are in the main thread of one
// process. A CUDA context belongs to the process, some libraries need its main thread,
// and loaded data must still exist at the next run.
func TestPythonKeepsOneProcessAndItsMainThread(t *testing.T) {
	p := start(t, runtimes.Python)
	p.load("import os, threading\nn = 0\npid = os.getpid()\ndef main(p):\n    global n\n    n += 1\n" +
		"    return {'n': n, 'same': pid == os.getpid() == " + itoa(p.cmd.Process.Pid) +
		", 'main': threading.current_thread() is threading.main_thread()}\n")
	for i := 1; i <= 3; i++ {
		p.run(`{}`, 200, "{\"n\": "+itoa(i)+", \"same\": true, \"main\": true}\n")
	}
}

// TestPythonOutputComesBeforeTheSentinel: output appears before the sentinel, however it
// is written.
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
		check.Contains(t, out, want)
	}
	check.Equal(t, err, "child\n")
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
			p.run(`{}`, 200, "{}\n")
			p.logs()
			if name == "closes" || name == "closes 1" {
				break
			}
		}
	}
}
